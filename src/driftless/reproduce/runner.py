"""Runs an experiment of a paper, seed after seed until its claims are decided by the rules stated with it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from driftless import __version__
from driftless.config.build import federation_of
from driftless.config.resolution import Resolved, combine, to_toml
from driftless.data import DATASETS
from driftless.errors import InputError, check_choice
from driftless.report.curves import Run
from driftless.reproduce import judge as judging
from driftless.reproduce.experiment import SCALES, Cell, Experiment, Paper, Scale, Settings, Setup, data_of
from driftless.reproduce.figure import draw
from driftless.reproduce.judge import Finding, judge
from driftless.reproduce.outcome import Measure, Outcome, Result, mean_of, std_of
from driftless.reproduce.strength import is_too_small, strength
from driftless.runs.directory import PLANNED, StoredRun
from driftless.runs.environment import commit
from driftless.runs.files import read_json, write_atomically, write_json
from driftless.runs.jobs import play
from driftless.runs.run import fingerprint

RESULT, FIGURE, RULES = "result.json", "figure.png", "rules.json"
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Reproduced:
    """An experiment at one scale, run and judged."""

    paper: Paper
    experiment: Experiment
    scale: Scale
    seeds: int
    findings: tuple[Finding, ...]
    outcome: Outcome | None
    """None when nothing could be run."""
    folder: Path

    @property
    def undecided(self) -> int:
        return sum(finding.verdict == "undecided" for finding in self.findings)

    @property
    def more_seeds(self) -> bool:
        """Whether one more seed is worth running."""
        setup = self.outcome.setup if self.outcome else None
        return setup is not None and bool(setup.cells) and self.undecided > 0 and self.seeds < setup.last_look


class Planned(NamedTuple):
    """One run: which cell, which point of its grid, which seed."""

    cell: Cell
    point: Settings
    resolved: Resolved
    folder: Path


def reproduce(
    paper: Paper, experiment: Experiment, scale: Scale, output: Path, jobs: int | None = None,
    progress: Progress = lambda done: None,
) -> Reproduced:  # fmt: skip
    """Everything that ran before with the same settings, for whichever experiment, is used again."""
    setup = experiment.setup(scale)
    done = look(paper, experiment, scale, output, setup.seeds if setup else 0, jobs, progress)
    while done.more_seeds:
        done = look(paper, experiment, scale, output, done.seeds + 1, jobs, progress)
    return done


def look(
    paper: Paper, experiment: Experiment, scale: Scale, output: Path, seeds: int, jobs: int | None = None,
    progress: Progress = lambda done: None,
) -> Reproduced:  # fmt: skip
    """Play what is missing of so many seeds, and judge."""
    folder = output / paper.name / experiment.name / scale
    setup = experiment.setup(scale)
    missing = missing_data(setup) if setup else {}
    if setup is None or (missing and len(missing) == len(setup.data)):
        reason = "; ".join(missing.values()) or experiment.untestable
        findings = tuple(Finding(claim, "not tested", reason=reason) for claim in experiment.claims)
        return write_result(Reproduced(paper, experiment, scale, 0, findings, None, folder))
    setup = replace(setup, cells=tuple(cell for cell in setup.cells if data_of(cell) not in missing))
    write_rules(experiment, folder)
    # For tiny runs, starting processes takes longer than running.
    results = tuple(played(experiment, setup, output, seeds, 1 if scale == "smoke" else jobs, progress))
    values = experiment.study(**setup.options) if experiment.study else {}
    outcome = Outcome(experiment, setup, results, values)
    findings = tuple(judge(claim, without_too_small(outcome, scale), scale) for claim in experiment.claims)
    return write_result(Reproduced(paper, experiment, scale, seeds, findings, outcome, folder))


def without_too_small(outcome: Outcome, scale: Scale) -> Outcome:
    """What is so far from the paper that its claims cannot show is not judged."""
    if scale != "small":
        return outcome
    kept = (one for one in outcome.results if not is_too_small(one.cell, outcome.experiment))
    return replace(outcome, results=tuple(kept))


def as_scale(text: str) -> Scale:
    check_choice("--scale", text, SCALES)
    return next(scale for scale in SCALES if scale == text)


def missing_data(setup: Setup) -> dict[str, str]:
    """The data sets that cannot be had, and why."""
    missing: dict[str, str] = {}
    first = {data_of(cell): cell for cell in reversed(setup.cells)}
    for name, cell in first.items():
        try:
            federation_of(resolved(cell.candidates[0], 0).config)
        except InputError as error:
            if name in DATASETS and DATASETS[name].is_here is None:  # it needs no files
                raise  # not absent: a mistake in the settings
            missing[name] = f"the data are not here: {error}"
    return missing


def plan(cells: Sequence[Cell], output: Path, seeds: range) -> list[Planned]:
    """Every run of these seeds, its settings checked; equal runs share a folder."""
    return [planned(cell, point, seed, output) for cell in cells for point in cell.candidates for seed in seeds]


def planned(cell: Cell, point: Settings, seed: int, output: Path) -> Planned:
    config = resolved(point, seed)
    name = f"{config.config.data.name}-{config.config.algorithm.name}"
    return Planned(cell, point, config, output / "runs" / f"{name}-{fingerprint(config.config)[:12]}")


def resolved(settings: Settings, seed: int) -> Resolved:
    # Several runs are played at once, each in one process. Every 10 rounds, checkpoints took a seventh of their time.
    ours = {"engine.workers": 1, "run.seed": seed, "run.checkpoint_every": 50}
    return combine([("driftless", ours), ("the paper", dict(settings))])


def searched(setup: Setup, output: Path, seeds: int) -> list[Planned]:
    """The runs from which the points of the grids are chosen, and the runs of cells without a grid."""
    searching = range(min(setup.grid_seeds or seeds, seeds))
    with_grid, without = ([cell for cell in setup.cells if bool(cell.grid) == has] for has in (True, False))
    return plan(without, output, range(seeds)) + plan(with_grid, output, searching)


def first_look(setup: Setup, output: Path) -> list[Planned]:
    """The runs of the first judgement, with any one point of each grid in place of the one that will be chosen."""
    search = searched(setup, output, setup.seeds)
    later = range(setup.grid_seeds or setup.seeds, setup.seeds)
    any_point = (replace(cell, settings=cell.candidates[0], grid={}) for cell in setup.cells if cell.grid)
    return search + plan(tuple(any_point), output, later)


def played(
    experiment: Experiment, setup: Setup, output: Path, seeds: int, jobs: int | None, progress: Progress
) -> Iterator[Result]:
    """A cell's result is that of the point of its grid which is best on average."""
    search = searched(setup, output, seeds)
    play_all(search, jobs, progress)
    best = {id(cell): choose(experiment, [one for one in search if one.cell is cell]) for cell in setup.cells}
    # The first runs are those of the search; what is left are other seeds of the chosen points.
    chosen = {id(cell): [planned(cell, best[id(cell)], seed, output) for seed in range(seeds)] for cell in setup.cells}
    play_all([one for runs in chosen.values() for one in runs], jobs, progress)
    for cell in setup.cells:
        runs = tuple(Run(StoredRun(one.folder)) for one in chosen[id(cell)])
        yield Result(cell, runs, {key: best[id(cell)][key] for key in cell.grid})


def play_all(runs: Sequence[Planned], jobs: int | None, progress: Progress) -> None:
    write_plans(runs)
    play(list(dict.fromkeys(one.folder for one in runs)), progress, jobs, keep_checkpoints=False)


def choose(experiment: Experiment, runs: Sequence[Planned]) -> Settings:
    """The point that is best on average over the seeds that were played."""
    selection = experiment.selection or experiment.measure
    points: dict[int, list[Planned]] = {}
    for one in runs:
        points.setdefault(id(one.point), []).append(one)
    best, score = runs[0].point, math.nan
    for tried in points.values() if len(points) > 1 else ():
        assert selection is not None, "a grid needs a measure to choose by"
        seen = mean_of(selection(Result(tried[0].cell, tuple(Run(StoredRun(one.folder)) for one in tried))))
        if selection.is_better(seen, score):
            best, score = tried[0].point, seen
    return best


def is_played(experiment: Experiment, setup: Setup, output: Path, seeds: int) -> bool:
    """Whether nothing is left to play for so many seeds."""
    runs = searched(setup, output, seeds)
    if not all(StoredRun(one.folder).result for one in runs):
        return False
    chosen = (
        (cell, choose(experiment, [one for one in runs if one.cell is cell])) for cell in setup.cells if cell.grid
    )
    return all(
        StoredRun(planned(cell, point, seed, output).folder).result for cell, point in chosen for seed in range(seeds)
    )


def total_rounds(planned: Sequence[Planned]) -> int:
    """Of runs that share a folder once."""
    return sum({one.folder: one.resolved.config.run.rounds for one in planned}.values())


def write_plans(planned: Sequence[Planned]) -> None:
    for one in planned:
        one.folder.mkdir(parents=True, exist_ok=True)
        file = one.folder / PLANNED
        if not file.exists():
            write_atomically(file, to_toml(one.resolved).encode())


def rules_of(experiment: Experiment) -> dict[str, str]:
    return {claim.name: f"{claim.rule} ({claim.decided_by})" for claim in experiment.claims}


def write_rules(experiment: Experiment, folder: Path) -> None:
    """Before the first run, once: what is judged later is compared with it."""
    file = folder / RULES
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(file, {"commit": commit(), "rules": rules_of(experiment)})


def changed_rules(done: Reproduced) -> list[str]:
    """Claims whose rules are not those that were stated before the first run."""
    file = done.folder / RULES
    before = read_json(file)["rules"] if file.exists() else {}
    return [name for name, rule in rules_of(done.experiment).items() if before.get(name, rule) != rule]


def write_result(done: Reproduced) -> Reproduced:
    """result.json and figure.png in the experiment's folder."""
    done.folder.mkdir(parents=True, exist_ok=True)
    write_json(done.folder / RESULT, record(done))
    if done.outcome and done.experiment.figure and (panels := list(done.experiment.figure(done.outcome))):
        draw(panels, done.folder / FIGURE)
    return done


def record(done: Reproduced) -> dict[str, Any]:
    """All that is published of an experiment, small enough to be committed."""
    outcome = done.outcome
    strengths = {claim.name: strength(done.experiment, claim, done.scale) for claim in done.experiment.claims}
    kinds = {claim.name: claim.kind or done.experiment.kind for claim in done.experiment.claims}
    return {
        "paper": done.paper.name,
        "experiment": done.experiment.name,
        "scale": done.scale,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit(),
        "run_commits": run_commits(outcome),
        "driftless": __version__,
        "seeds": done.seeds,
        "runs": len(all_runs(outcome)),
        "seconds": round(sum(float(run.column("seconds").sum()) for run in all_runs(outcome)), 1),
        "changed_rules": changed_rules(done),
        "cells": [as_json(done.experiment.measure, one) for one in outcome.results] if outcome else [],
        "claims": [
            {**judging.as_json(one), "kind": kinds[one.claim.name], "strength": strengths[one.claim.name]}
            for one in done.findings
        ],
    }


def all_runs(outcome: Outcome | None) -> list[Run]:
    """Each once, also where cells share it."""
    runs = {run.stored.path: run for result in (outcome.results if outcome else ()) for run in result.runs}
    return list(runs.values())


def run_commits(outcome: Outcome | None) -> list[str]:
    """Of the source trees that the runs were made from; with a + where one had changes."""
    return sorted({str(run.stored.environment.get("commit")) for run in all_runs(outcome)})


def check_publishable(done: Reproduced) -> None:
    """Published numbers can be made again: they come from committed source."""
    commits = {str(commit()), *run_commits(done.outcome)}
    if wrong := sorted(one for one in commits if one == "None" or one.endswith("+")):
        raise InputError(
            f"{done.paper.name}/{done.experiment.name} was made from {', '.join(wrong)}, which is not a commit: "
            "published results come from a checkout without changes. Commit, remove the runs of the changed source "
            "from the --output folder, and run it again."
        )


def as_json(measure: Measure | None, result: Result) -> dict[str, Any]:
    ours = measure(result) if measure else None
    return {
        "at": dict(result.cell.at),
        "ours": None if ours is None else [finite(mean_of(ours)), finite(std_of(ours))],
        "each": None if ours is None else [finite(float(f"{value:.6g}")) for value in ours],
        "published": list(result.cell.published) if result.cell.published else None,
        "diverged": result.diverged,
        "chosen": dict(result.settings),
    }


def finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None
