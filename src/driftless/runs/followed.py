"""A run of several ranks: rank 0 writes its directory, which the others need not see, and tells them what they need."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from driftless.config.build import simulation_of
from driftless.config.options import own_code
from driftless.config.resolution import Config, Resolved, flat
from driftless.config.sections import is_experiment
from driftless.config.stored import read_stored, resolve_stored
from driftless.config.user_code import code_hashes
from driftless.engine.fingerprint import facts
from driftless.engine.ranks import Ranks
from driftless.engine.simulation import Simulation, follow_rounds
from driftless.runs.directory import CONFIG, StoredRun
from driftless.runs.resumed_settings import with_device, without_file_of_weights

TOLD = ("rows", "events", "result", "environment", "federation", "client_metrics")
"""Of a run that has ended, by the names of StoredRun."""


@dataclass(frozen=True)
class Opening:
    """What rank 0 does, told to the others before they build the run."""

    plays: bool = True
    """False: the run has ended already."""
    config: str = ""
    """Of the run directory; empty: each rank has its own for a run that begins, and these are compared."""
    trust: bool = False
    weights: bool = True
    """Whether the file of weights is needed."""
    device: str | None = None
    """Another one than before."""


def open_run(ranks: Ranks, opening: Opening) -> None:
    """At rank 0."""
    ranks.broadcast_text(json.dumps(asdict(opening)))


def config_text(directory: Path) -> str:
    return (directory / CONFIG).read_text(encoding="utf-8")


def agree(ranks: Ranks, config: Config, simulation: Simulation) -> None:
    """Raise unless all ranks are to play the same run."""
    if ranks.size > 1:
        settings = {key: str(value) for key, value in flat(config).items() if is_experiment(key)}
        code = {f"the code in {path}": code[:12] for path, code in code_hashes(own_code(flat(config))).items()}
        ranks.agree(settings | code | facts(simulation))


def follow_run(ranks: Ranks, directory: Path, resolved: Resolved | None = None) -> StoredRun:
    """What a rank other than 0 does of a run; `resolved`: its own configuration, for a run that begins."""
    opening = Opening(**json.loads(ranks.broadcast_text()))
    config = resolved.config if resolved is not None and not opening.config else stored_config(opening)
    if opening.plays:
        config, _ = with_device(config, opening.device)
        simulation = simulation_of(config if opening.weights else without_file_of_weights(config))
        agree(ranks, config, simulation)
        follow_rounds(simulation)
    stored = StoredRun(directory)
    stored.__dict__.update(json.loads(ranks.broadcast_text()), config=config)  # in place of what it would read
    return stored


def share(ranks: Ranks, stored: StoredRun) -> StoredRun:
    """Tell the others what the run has come to."""
    ranks.broadcast_text(json.dumps({name: getattr(stored, name) for name in TOLD}) if ranks.size > 1 else "")
    return stored


def stored_config(opening: Opening) -> Config:
    with TemporaryDirectory() as folder:
        file = Path(folder) / CONFIG
        file.write_text(opening.config, encoding="utf-8")
        return (resolve_stored(file, opening.trust) if opening.plays else read_stored(file)).config
