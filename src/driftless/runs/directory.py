"""Run directories: their names, and what is in them, for report, compare and tune.

A run directory holds `config.toml` (every setting and its source), `environment.json`, `federation.json` (how the data
were divided), `fingerprint.json` (checksums of data, model and code), `metrics.jsonl` (one line a round),
`events.jsonl`, `checkpoint/`, `client_metrics.json` (the last evaluation, client by client), and, when the run has
ended, `model.safetensors` and `result.json`. In a comparison `planned.toml` has the settings of a run that may not have
begun.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from driftless import models
from driftless.config.build import federation_of, own_model
from driftless.config.options import own_code
from driftless.config.resolution import flat
from driftless.config.sections import Config
from driftless.config.stored import read_stored, resolve_stored
from driftless.config.user_code import is_label, is_own
from driftless.engine.flat import copy_of
from driftless.engine.history import History
from driftless.errors import InputError
from driftless.runs.checkpoint import newest_server
from driftless.runs.files import read_json, read_lines
from driftless.runs.fingerprint import FINGERPRINT
from driftless.runs.lock import LOCK, locked

CONFIG, ENVIRONMENT, FEDERATION, METRICS = "config.toml", "environment.json", "federation.json", "metrics.jsonl"
EVENTS, RESULT, CHECKPOINT, PLANNED = "events.jsonl", "result.json", "checkpoint", "planned.toml"
CLIENT_METRICS, WEIGHTS, NODES = "client_metrics.json", "model.safetensors", "nodes.json"
RESERVED = (CONFIG, ENVIRONMENT, FEDERATION, FINGERPRINT, METRICS, EVENTS, CLIENT_METRICS, RESULT, WEIGHTS)
"""Files of a run that a user's own files must not be overwritten by."""


@dataclass(frozen=True)
class StoredRun:
    """A run directory; what is asked for is read when it is asked for.

    Attributes:
        path: The folder.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> run = driftless.run("fedavg", federation, "logistic", output="runs/mine", rounds=1, cohort=4)
        >>> run.config.algorithm.name, run.seed, sorted(run.state)
        ('fedavg', 0, ['aggregate', 'server.x'])
        >>> run.module()(federation.test[0]).shape
        torch.Size([360, 10])
    """

    path: Path

    @cached_property
    def config(self) -> Config:
        """The settings, read as text: code that the run used is neither imported nor needed."""
        return read_stored(self.path / CONFIG).config

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The metrics, a dict a round; a value that a round did not measure is absent."""
        return read_lines(self.path / METRICS)

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """What happened, {"round": ..., "what": ..., "clients": [...]} each."""
        return read_lines(self.path / EVENTS)

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions and the machine on which the run was computed."""
        return read_json(self.path / ENVIRONMENT)

    @cached_property
    def federation(self) -> dict[str, Any] | None:
        """How the data were divided; None for a run of an earlier version."""
        return read_json(self.path / FEDERATION) if (self.path / FEDERATION).exists() else None

    @cached_property
    def result(self) -> dict[str, Any] | None:
        """How the run ended, its last and best values; None while it has not ended."""
        return read_json(self.path / RESULT) if (self.path / RESULT).exists() else None

    @cached_property
    def history(self) -> History:
        """The metrics as a table: `history["test_accuracy"]` is a column, `history[-1]` the last row."""
        return History(self.rows)

    @property
    def state(self) -> dict[str, Tensor]:
        """What the server has in the newest checkpoint, by the names of its fields: "server.x", "server.h", ..."""
        return newest_server(self.path / CHECKPOINT)

    def module(self, module: nn.Module | None = None) -> nn.Module:
        """A new module with the parameters that were evaluated last.

        Args:
            module: A module like the one that was trained, which is copied. Needed for a model that was given in
                Python, which is not known here; None: a model that has a name, or comes from a file, is built anew.
        """
        file = self.path / WEIGHTS
        if not self.path.exists():
            raise InputError(f"'{self.path}' cannot be seen here; of several ranks only rank 0 writes it: ask there.")
        if not file.exists():
            raise InputError(f"the run in '{self.path}' has not ended, so there is no {WEIGHTS}; resume it first.")
        filled = self._empty_module() if module is None else copy_of(module)
        models.load_weights(filled, file)
        return filled

    def _empty_module(self) -> nn.Module:
        config, federation = resolve_stored(self.path / CONFIG).config, self.federation or {}
        if is_label(config.model.name):
            raise InputError(
                f"the model of the run in '{self.path}' was given in Python; give a module like it: module(Net())."
            )
        if is_own(config.model.name):
            return own_model(config, federation_of(config))
        if "input_shape" not in federation:
            raise InputError(f"the run in '{self.path}' did not record the shape of its inputs; give the module.")
        shapes = tuple(federation["input_shape"]), tuple(federation["target_shape"])
        return models.build(config.model.name, shapes[0], federation["classes"], config.run.seed, shapes[1])

    @cached_property
    def client_metrics(self) -> dict[str, list[float]]:
        """Of the last evaluation that was saved: by metric, the value of each test client; NaN where there is none."""
        file = self.path / CLIENT_METRICS
        metrics: Any = read_json(file).get("metrics") if file.exists() else {}
        lists = list(metrics.values()) if isinstance(metrics, dict) else [metrics]
        if not all(isinstance(each, list) and all(isinstance(v, float | int | None) for v in each) for each in lists):
            raise InputError(
                f"'metrics' of '{file}' must be lists of numbers by their names; put it back, or delete it."
            )
        return {name: [math.nan if v is None else float(v) for v in values] for name, values in metrics.items()}

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.config.run.seed


def is_run(path: Path) -> bool:
    return (path / CONFIG).is_file() and (path / METRICS).is_file()


def find_runs(paths: Iterable[Path]) -> list[StoredRun]:
    """The runs at or below these paths, in the order of their names."""
    runs: list[StoredRun] = []
    for path in paths:
        found = sorted(file.parent for file in path.rglob(CONFIG) if is_run(file.parent)) if path.is_dir() else []
        if not found:
            raise InputError(
                f"there is no run at or below '{path}'; give run directories, or a folder that holds some."
            )
        runs += [StoredRun(folder) for folder in found if folder not in {run.path for run in runs}]
    return runs


def command(name: str, directory: Path) -> str:
    """A command as one would type it."""
    return f"driftless {name} {shlex.quote(str(directory))}"


def how_to_continue(directory: Path) -> str:
    """The command that resumes; a script whose objects no file has must be run again."""
    if (directory / NODES).exists():
        return "flwr run, with the same app and settings"
    if any(map(is_label, own_code(flat(read_stored(directory / CONFIG).config)))):
        return "the same script, run again"
    return command("resume", directory)


def refuse_file(directory: Path) -> None:
    in_the_way = next((path for path in (directory, *directory.parents) if is_taken(path) and not path.is_dir()), None)
    if in_the_way:
        raise InputError(f"the output '{directory}' cannot be a folder: '{in_the_way}' is a file. Choose another one.")


def is_taken(path: Path) -> bool:
    """Also by a link that leads nowhere."""
    return path.exists() or path.is_symlink()


def refuse_existing(directory: Path) -> None:
    """A new run needs a directory that holds no run and none of its files."""
    refuse_file(directory)
    if not is_run(directory):
        ours = (directory / LOCK).exists()  # a start that was killed before its first round
        taken = [name for name in RESERVED if os.path.lexists(directory / name)]
        if taken and not ours:
            raise InputError(
                f"'{directory}' holds a file '{taken[0]}' that is not of a run; it would be overwritten. "
                "Choose another output."
            )
        return
    state, name = "a finished run; look at it", "report"
    if StoredRun(directory).result is None:
        state, name = "a run that has not ended; continue it", "resume"
    raise InputError(
        f"'{directory}' holds {state} with: {command(name, directory)}. To run again, choose another output, or add "
        "--again, which keeps the old run under another name."
    )


def set_aside(directory: Path) -> Path | None:
    """Rename an existing run out of the way; returns its new name."""
    if not is_run(directory):
        return None
    with locked(directory):
        other = free_name(directory.with_name(f"{directory.name}.old"))
        directory.rename(other)
    return other


def free_name(directory: Path) -> Path:
    """The directory itself, or with -2, -3, ... behind it if it exists."""
    if not directory.exists():
        return directory
    number = 2
    while directory.with_name(f"{directory.name}-{number}").exists():
        number += 1
    return directory.with_name(f"{directory.name}-{number}")


def default_directory(config: Config) -> Path:
    """runs/digits-adabest-seed3: never one that exists."""
    algorithm = Path(config.algorithm.name.rpartition(":")[2]).name
    return free_name(Path("runs") / f"{config.data.name}-{algorithm}-seed{config.run.seed}")
