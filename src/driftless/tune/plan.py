"""The plan of a search: checked as a whole before the first trial, and written down so that it can be continued."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from driftless.config.build import algorithm_of, federation_of, local_of, simulation_of
from driftless.config.command import command_options
from driftless.config.describe import describe, lines
from driftless.config.resolution import (
    Config,
    Resolved,
    combine,
    flat,
    parse_overrides,
    to_toml,
    with_values,
)
from driftless.config.sections import MOST_RUNS, Section
from driftless.config.stored import different_settings, resolve_stored
from driftless.config.user_code import is_own
from driftless.engine.batches import check_steps
from driftless.engine.evaluation_settings import Monitor, columns_of
from driftless.engine.local import check_agreement
from driftless.engine.simulation import Simulation
from driftless.errors import LARGEST, InputError, unknown
from driftless.runs.directory import PLANNED, command
from driftless.runs.files import read_json, write_atomically, write_json
from driftless.tune.space import Space, default_space, grid, parse_space

STUDY, CLAIM = "study.json", ".claim"
SAMPLERS, PRUNERS = ("tpe", "random", "grid"), ("median", "none")
DEFAULT_TRIALS = 30
HELD_OUT = 0.2
DEFAULTS = {"engine.workers": 1, "run.evaluate_every": 1}
"""One process each: several trials side by side are faster than one trial in several processes."""


class Tune(Section, frozen=True):
    """The `[tune]` table of a configuration file."""

    trials: int | None = Field(default=None, ge=1, le=MOST_RUNS)
    """In all, those of earlier calls included. Default: 30, of a grid every point."""
    sampler: str = "tpe"
    pruner: str = "median"
    seeds: int = Field(default=1, ge=1, le=MOST_RUNS)
    """Runs of each trial."""
    last: int = Field(default=5, ge=1, le=LARGEST)
    """Evaluations at the end of a run whose mean is the objective."""
    storage: str | None = None
    study: str | None = None
    space: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    base: Resolved
    """What all trials share; its seed is that of the search and of the first run of each trial."""
    space: Space
    options: Tune
    trials: int
    objective: str
    """The column of the held-out clients that trials are judged by: by default "validation_accuracy", for regression
    "validation_loss"."""
    mode: str
    """ "max" or "min": whether it is to be high or low."""
    title: str
    notes: tuple[str, ...] = ()
    """What was decided for the user, to be shown."""
    output: str | None = None
    name: str = ""
    """Of the study in its storage; decided with the folder."""
    place: str = ""
    """Marks the trials of this folder among those of other machines."""
    trust: bool = False
    """Import code that was changed since the search was started."""
    about: tuple[str, ...] = ()
    """What all trials share, to be shown."""

    @property
    def folder(self) -> Path:
        """The same command continues the same study, so the name is not a new one each time."""
        return Path(self.output) if self.output else Path("runs") / f"tune-{self.title}"

    @property
    def sign(self) -> int:
        """Trials are stored so that larger is better."""
        return 1 if self.mode == "max" else -1

    @property
    def seeds(self) -> list[int]:
        first = self.base.config.run.seed
        return list(range(first, first + self.options.seeds))

    @property
    def rounds_of_trial(self) -> int:
        return self.base.config.run.rounds * self.options.seeds

    @property
    def rounds(self) -> int:
        """Of all trials, those that are pruned counted in full."""
        return self.trials * self.rounds_of_trial


def plan(file: Path | None, overrides: Iterable[str]) -> Plan:
    """Resolve and check the search before anything runs; `trials=20` and `space.local.lr=[0.1,0.2]` are overrides."""
    options, from_file, run_overrides = command_options(Tune, "tune", file, overrides)
    given = parse_overrides(run_overrides, from_file)
    base = combine([("the search", DEFAULTS), (str(file), from_file), ("command line", given)])
    return plan_search(base, options, file.stem.removeprefix("tune-") if file else "")


def plan_search(base: Resolved, options: Tune, title: str = "") -> Plan:
    """The search from these settings; `title` names it, default its data and algorithm."""
    require_optuna()
    for name, given, allowed in (("sampler", options.sampler, SAMPLERS), ("pruner", options.pruner, PRUNERS)):
        if given not in allowed:
            raise unknown(name, given, allowed)
    output = base.config.run.output
    base = with_values(base, {"run.output": None}, "the search")
    check_stopping(base.config)
    base, notes = hold_out(base)
    simulation = checked(base.config, notes)
    settings = flat(base.config)
    space = parse_space(options.space, settings) if options.space else default_space(settings)
    check_ends(base, space, simulation)
    objective = objective_of(simulation)
    title = title or "-".join(name.rpartition(":")[2] for name in (base.config.data.name, base.config.algorithm.name))
    trials, more = number_of_trials(options, space)
    about = tuple(lines(describe(base.config, simulation)))
    return Plan(base, space, options, trials, *objective, title, tuple(notes + more), output, about=about)


def objective_of(simulation: Simulation) -> Monitor:
    """What the run is judged by, on the held-out clients."""
    columns, monitor = columns_of(simulation.evaluation), simulation.monitor
    if monitor is None:
        name = "validation_accuracy" if "validation_accuracy" in columns else "validation_loss"
        return Monitor(name, "max" if columns[name] else "min")
    name = f"validation_{monitor.column.removeprefix('test_').removeprefix('validation_')}"
    if name not in columns:
        allowed = ", ".join(column for column in columns if column.startswith("validation_"))
        raise InputError(
            f"a search judges trials on held-out clients, on which '{monitor.column}' is not measured; "
            f"set evaluate.monitor to one of {allowed}."
        )
    return monitor._replace(column=name)


def require_optuna() -> None:
    try:
        import optuna  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ModuleNotFoundError:
        raise InputError("driftless tune needs Optuna, which is not installed: pip install driftless[tune]") from None


def check_stopping(config: Config) -> None:
    if config.run.patience is not None or config.run.stop_at_target:
        name = "patience=none" if config.run.patience is not None else "stop_at_target=false"
        raise InputError(
            "run.patience and run.stop_at_target watch the test set, which a search must not see; "
            f"leave them out or add {name}. Bad trials are stopped by pruner=median."
        )
    if config.run.evaluate_every == 0:
        raise InputError("run.evaluate_every=0 measures nothing, so there is nothing to search by; set 1 or more.")


def hold_out(base: Resolved) -> tuple[Resolved, list[str]]:
    data = base.config.data
    if data.validation or (is_own(data.name) and federation_of(base.config).validation is not None):
        return base, []
    note = (
        f"no clients were held out: {HELD_OUT:.0%} of them are now, to judge the trials on. "
        "Set data.validation to hold out others."
    )
    return with_values(base, {"data.validation": HELD_OUT}, "the search"), [note]


def checked(config: Config, notes: list[str]) -> Simulation:
    """With fewer clients to train on, a cohort may have become too large: then the error gives the reason."""
    try:
        return simulation_of(config)
    except InputError as error:
        raise InputError(" ".join([str(error), *notes])) from None


def number_of_trials(options: Tune, space: Space) -> tuple[int, list[str]]:
    if options.sampler != "grid":
        return options.trials or DEFAULT_TRIALS, []
    points = math.prod(map(len, grid(space).values()))
    asked = options.trials or points
    if asked < points:
        return asked, [f"the grid has {points} points, of which trials={asked} are tried, in random order."]
    return points, [f"the grid has {points} points, each is tried once."] if asked > points else []


def check_ends(base: Resolved, space: Space, simulation: Simulation) -> None:
    """Every listed value and both ends of every range must be possible: better now than in trial 17."""
    for key, dim in space.items():
        for value in dim.ends():
            try:
                config = with_values(base, {key: value}, "the search").config
                if key.startswith(("algorithm.", "local.")):
                    check_agreement(algorithm_of(config), local_of(config))
                    check_steps(local_of(config), simulation.federation.sizes)
                else:
                    simulation_of(config)
            except InputError as error:
                raise InputError(f"space.{key} cannot hold {value!r}: {error}") from None


def identity(plan: Plan) -> dict[str, Any]:
    """What makes it this search and no other, as JSON gives it back. The number of trials does not."""
    options = plan.options.model_dump(exclude={"trials", "storage", "study", "space"})
    space = {f"space.{key}": dim.as_toml() for key, dim in plan.space.items()}
    return json.loads(json.dumps({**flat(plan.base.config), **{f"tune.{k}": v for k, v in options.items()}, **space}))


def write_plan(plan: Plan, folder: Path) -> None:
    content = {
        "name": plan.name, "place": plan.place, "title": plan.title, "objective": plan.objective,
        "mode": plan.mode,
        "trials": plan.trials, "storage": without_password(plan.options.storage or "") or None,
        "options": plan.options.model_dump(exclude={"trials", "storage", "study", "space"}),
        "space": {key: dim.as_toml() for key, dim in plan.space.items()},
        "source": plan.base.source,
        "about": plan.about,
    }  # fmt: skip
    write_atomically(folder / PLANNED, to_toml(plan.base).encode())
    write_json(folder / STUDY, content)


def read_plan(folder: Path, trust: bool = False) -> Plan:
    """The plan of a study's folder, to continue it. `trust`: import code that was changed since it was started."""
    require_optuna()
    if not is_study(folder):
        raise InputError(f"'{folder}' holds no search; give a folder that `driftless tune` made.")
    stored = read_json(folder / STUDY)
    base = Resolved(resolve_stored(folder / PLANNED, trust).config, stored["source"])
    options = Tune(**stored["options"], storage=stored["storage"])
    space = parse_space(stored["space"], flat(base.config))
    mode = stored.get("mode", "min" if stored["objective"] == "validation_loss" else "max")  # earlier ones have none
    return Plan(
        base, space, options, stored["trials"], stored["objective"], mode, stored["title"], (), str(folder),
        stored["name"], stored["place"], trust, tuple(stored.get("about", ())),
    )  # fmt: skip


def is_study(folder: Path) -> bool:
    return (folder / STUDY).is_file()


def plan_of_folder(plan: Plan, folder: Path) -> Plan:
    """The plan with the name, place and engine that the folder has; a folder of anything else is refused.

    The caller holds the folder's lock.
    """
    if not is_study(folder):
        if any(path.name != CLAIM for path in folder.iterdir()):
            raise InputError(f"'{folder}' exists and holds something else; choose another with output=FOLDER.")
        return replace(plan, name=plan.options.study or folder.resolve().name, place=uuid.uuid4().hex)
    stored = read_plan(folder, plan.trust)
    refuse_other(stored, plan, folder)
    return replace(stored, trials=plan.trials, options=plan.options, notes=plan.notes)


def refuse_other(stored: Plan, plan: Plan, folder: Path) -> None:
    there, here = identity(stored), identity(plan)
    there["tune.storage"], here["tune.storage"] = (without_password(p.options.storage or "") for p in (stored, plan))
    there["tune.study"], here["tune.study"] = stored.name, plan.options.study or stored.name
    different = different_settings(there, here)
    if different:
        key = different[0]
        raise InputError(
            f"'{folder}' holds another search: {key} is {there.get(key, 'not set')} there and "
            f"{here.get(key, 'not set')} here. Choose another folder with output=FOLDER, or continue that search with: "
            f"{command('resume', folder)}"
        )


def without_password(text: str) -> str:
    return re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", text)
