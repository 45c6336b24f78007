"""The folder of a comparison: the plan is written down first, so that the whole can be killed and resumed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from driftless.compare.plan import Comparison
from driftless.config.resolution import Resolved, flat, to_toml
from driftless.config.stored import read_stored, resolve_stored
from driftless.errors import InputError
from driftless.runs.directory import PLANNED, StoredRun, command, refuse_file
from driftless.runs.files import read_json, write_atomically, write_json
from driftless.runs.jobs import play

COMPARISON = "comparison.json"


class StoredOptions(NamedTuple):
    """What comparison.json says beside the names of the runs."""

    target: float | None
    sweep: tuple[str, ...]
    """The swept keys."""


def prepare_folder(comparison: Comparison, folder: Path) -> None:
    """Write the plan down, so that the whole can be resumed; an existing folder must hold the same plan."""
    refuse_file(folder)
    if is_comparison(folder):
        if different := difference(read_comparison(folder, resolve_stored), comparison):
            raise InputError(
                f"'{folder}' holds a comparison with other settings: {different}. Choose another output, "
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
        stored = {"runs": list(planned), "target": comparison.target, "sweep": comparison.sweep}
        stored["about"] = comparison.about
        write_json(beginning / COMPARISON, stored)
        beginning.replace(folder)
    except OSError:
        shutil.rmtree(beginning, ignore_errors=True)
        raise


def difference(there: Comparison, here: Comparison) -> str:
    """In words, the first difference between two plans; empty: there is none."""
    for name in {**there.runs, **here.runs}:
        if name not in there.runs or name not in here.runs:
            return f"'{name}' is only {'there' if name in there.runs else 'here'}"
        before, now = flat(there.runs[name].config), flat(here.runs[name].config)
        for key in {**before, **now}:
            if before.get(key) != now.get(key):
                return f"{key} of '{name}' is {before.get(key, 'not set')} there and {now.get(key, 'not set')} here"
    return ""


def read_comparison(folder: Path, read: Callable[[Path], Resolved] = read_stored) -> Comparison:
    """The plan of a comparison's folder, by default as text: no code is imported."""
    stored = read_json(folder / COMPARISON)
    names = stored.get("runs")
    if not isinstance(names, list) or not all(is_inside(folder, name) for name in names):
        raise InputError(
            f"'runs' of '{folder / COMPARISON}' must be a list of folders inside that folder; put it back."
        )
    options = options_in(stored, folder)
    runs = {name: read(folder / name / PLANNED) for name in names}
    about = stored.get("about")  # earlier versions did not write it
    lines = tuple(map(str, about)) if isinstance(about, list) else ()
    return Comparison(runs, options.target, None, options.sweep, lines)


def read_options(folder: Path) -> StoredOptions:
    """Without reading its runs."""
    return options_in(read_json(folder / COMPARISON), folder)


def options_in(stored: dict[str, Any], folder: Path) -> StoredOptions:
    target, sweep = stored.get("target"), stored.get("sweep", [])  # earlier versions could not sweep
    if not isinstance(target, float | int | None):
        raise InputError(f"'target' of '{folder / COMPARISON}' must be a number or null, got {target!r}; put it back.")
    if not isinstance(sweep, list) or not all(isinstance(key, str) for key in sweep):
        raise InputError(f"'sweep' of '{folder / COMPARISON}' must be a list of keys, got {sweep!r}; put it back.")
    return StoredOptions(target, tuple(sweep))


def is_inside(folder: Path, name: object) -> bool:
    """Also with links followed: a folder that came from elsewhere must not decide where runs are written."""
    if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
        return False
    return (folder / name).resolve().is_relative_to(folder.resolve()) and Path(name) != Path()


def is_comparison(folder: Path) -> bool:
    return (folder / COMPARISON).is_file()


def comparison_above(run: Path) -> Path | None:
    """The comparison that a run's folder belongs to: <comparison>/[<cell>/]<algorithm>/<seed>."""
    return next((folder for folder in run.parents[1:3] if is_comparison(folder)), None)


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
