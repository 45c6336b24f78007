"""Several algorithms, several seeds: a folder of runs that is started, killed and resumed as a whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, StrictInt

from driftless.config.build import simulation_of
from driftless.config.command import command_options
from driftless.config.resolution import (
    Resolved,
    Values,
    combine,
    full_keys,
    parse_overrides,
    to_toml,
    with_values,
)
from driftless.config.sections import MOST_RUNS, Config, Section
from driftless.config.stored import read_stored, resolve_stored
from driftless.config.user_code import absolute_name, algorithm_class
from driftless.errors import InputError
from driftless.runs.directory import PLANNED, StoredRun, command, refuse_file
from driftless.runs.files import read_json, write_atomically, write_json
from driftless.runs.jobs import play

COMPARISON = "comparison.json"


class Compare(Section, strict=False, frozen=True):
    """The `[compare]` table of a configuration file."""

    algorithms: tuple[str, ...] = ()
    seeds: StrictInt = Field(default=3, ge=1, le=MOST_RUNS)
    target: float | None = None
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Per algorithm, settings that differ from the rest of the file: its own learning rate, for example."""


@dataclass(frozen=True)
class Comparison:
    """Runs by their folder below the comparison's, such as "fedavg/seed-0"."""

    runs: dict[str, Resolved]
    target: float | None
    output: Path | None = None
    """Where the user wants it; None for the command's own choice."""

    @property
    def rounds(self) -> int:
        return sum(resolved.config.run.rounds for resolved in self.runs.values())


def plan(algorithms: Sequence[str], file: Path | None, overrides: Iterable[str]) -> Comparison:
    """Resolve and check every run before the first one starts."""
    options, base, run_overrides = command_options(Compare, "compare", file, overrides)
    names = tuple(algorithms) or options.algorithms
    if not names:
        raise InputError("no algorithm to compare; name some, e.g. driftless compare fedavg scaffold adabest.")
    if len(set(map(absolute_name, names))) < len(names):
        raise InputError(f"an algorithm is named twice in {', '.join(names)}; name each once.")
    for name in options.settings:
        algorithm_class(name)
    runs: dict[str, Resolved] = {}
    output: str | None = None
    folders = folder_names(names)
    for name in names:
        resolved = config_of(name, base, options.settings.get(name, {}), run_overrides, file)
        _ = simulation_of(resolved.config).decision  # raises if anything does not fit
        first, output = resolved.config.run.seed, resolved.config.run.output
        for seed in range(first, first + options.seeds):
            own = {"run.seed": seed, "run.output": None}
            runs[f"{folders[name]}/seed-{seed}"] = with_values(resolved, own, "the comparison")
    return Comparison(runs, options.target, Path(output) if output else None)


def config_of(name: str, base: Values, settings: dict[str, Any], overrides: list[str], file: Path | None) -> Resolved:
    own = full_keys(settings, {**base, "algorithm.name": name})
    if "algorithm.name" in own:
        raise InputError(f"compare.settings.{name} sets another algorithm; give only its settings there.")
    tuned = {"algorithm.name": name} | own
    given = parse_overrides(overrides, {**base, **tuned})
    if "algorithm.name" in given:
        raise InputError("algorithm=... is for one run; a comparison takes names: driftless compare fedavg scaffold.")
    where = f"compare.settings.{name} of {file}" if settings else "the comparison"
    # One process each: several runs side by side are faster than one run in several processes.
    layers = [("the comparison", {"engine.workers": 1}), (str(file), base), (where, tuned), ("command line", given)]
    return combine(layers)


def folder_names(algorithms: Iterable[str]) -> dict[str, str]:
    """The name itself; for `my.py:MyAlgo`, "my-MyAlgo", for another one that would be called so, "my-MyAlgo-2"."""
    folders: dict[str, str] = {}
    for algorithm in algorithms:
        file, colon, cls = algorithm.rpartition(":")
        name, number = f"{Path(file).stem}-{cls}" if colon else algorithm, 2
        free = name
        while free in folders.values():
            free, number = f"{name}-{number}", number + 1
        folders[algorithm] = free
    return folders


def prepare_folder(comparison: Comparison, folder: Path) -> None:
    """Write the plan down, so that the whole can be resumed; an existing folder must hold the same plan."""
    refuse_file(folder)
    if is_comparison(folder):
        if settings_of(comparison) != settings_of(read_comparison(folder, resolve_stored)):
            raise InputError(
                f"'{folder}' holds a comparison with other settings; choose another output, "
                f"or continue that one with: {command('resume', folder)}"
            )
        return
    planned = {name: to_toml(resolved) for name, resolved in comparison.runs.items()}
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"'{folder}' exists and holds something else; choose another output.")
    # Under another name first: a kill leaves no folder that is half a comparison.
    beginning = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        for name, text in planned.items():
            (beginning / name).mkdir(parents=True)
            write_atomically(beginning / name / PLANNED, text.encode())
        write_json(beginning / COMPARISON, {"runs": list(planned), "target": comparison.target})
        beginning.replace(folder)
    except OSError:
        shutil.rmtree(beginning, ignore_errors=True)
        raise


def settings_of(comparison: Comparison) -> dict[str, Config]:
    return {name: resolved.config for name, resolved in comparison.runs.items()}


def read_comparison(folder: Path, read: Callable[[Path], Resolved] = read_stored) -> Comparison:
    """The plan of a comparison's folder, by default as text: no code is imported."""
    stored = read_json(folder / COMPARISON)
    names, target = stored.get("runs"), stored.get("target")
    if not isinstance(names, list) or not all(is_inside(folder, name) for name in names):
        raise InputError(
            f"'runs' of '{folder / COMPARISON}' must be a list of folders inside that folder; put it back."
        )
    if not isinstance(target, float | int | None):
        raise InputError(f"'target' of '{folder / COMPARISON}' must be a number or null, got {target!r}; put it back.")
    return Comparison({name: read(folder / name / PLANNED) for name in names}, target)


def is_inside(folder: Path, name: object) -> bool:
    """Also with links followed: a folder that came from elsewhere must not decide where runs are written."""
    if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
        return False
    return (folder / name).resolve().is_relative_to(folder.resolve()) and Path(name) != Path()


def is_comparison(folder: Path) -> bool:
    return (folder / COMPARISON).is_file()


def execute(
    comparison: Comparison, folder: Path, progress: Callable[[int], object], jobs: int | None = None
) -> list[StoredRun]:
    """Run what has not been run; `progress` is called with the rounds done in all. Ctrl-C saves and stops."""
    prepare_folder(comparison, folder)
    return resume(comparison, folder, progress, jobs)


def resume(
    comparison: Comparison,
    folder: Path,
    progress: Callable[[int], object],
    jobs: int | None = None,
    trust: bool = False,
) -> list[StoredRun]:
    """Run what is missing in the folder of a comparison. `trust`: import code that was changed since it was planned."""
    return play([folder / name for name in comparison.runs], progress, jobs, trust)
