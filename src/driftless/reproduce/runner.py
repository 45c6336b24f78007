"""Runs an experiment of a paper, measures its cells and judges its claims by the rules stated with it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from driftless import __version__
from driftless.config.build import federation_of
from driftless.config.resolution import Resolved, combine, to_toml
from driftless.data import DATASETS
from driftless.errors import InputError, check_choice
from driftless.report.curves import Run
from driftless.reproduce.experiment import (
    SCALES,
    Cell,
    Check,
    Claim,
    Experiment,
    Paper,
    Scale,
    Settings,
    Setup,
    Verdict,
    data_of,
)
from driftless.reproduce.figure import draw
from driftless.reproduce.outcome import Measure, Missing, Outcome, Result
from driftless.runs.directory import PLANNED, StoredRun
from driftless.runs.environment import commit
from driftless.runs.files import write_atomically, write_json
from driftless.runs.jobs import play
from driftless.runs.run import fingerprint

RESULT, FIGURE = "result.json", "figure.png"
PARTLY = 0.5
SMOKE_REASON = "the smoke scale only shows that it runs"


class Finding(NamedTuple):
    """A claim's verdict and what it rests on."""

    claim: Claim
    verdict: Verdict
    checks: tuple[Check, ...] = ()
    reason: str = ""
    """Why it is not testable."""


@dataclass(frozen=True)
class Reproduced:
    """An experiment at one scale, run and judged."""

    paper: Paper
    experiment: Experiment
    scale: Scale
    findings: tuple[Finding, ...]
    outcome: Outcome | None
    """None when nothing could be run."""
    folder: Path


class Planned(NamedTuple):
    """One run: which cell, which point of its grid, which seed."""

    cell: Cell
    point: Settings
    resolved: Resolved
    folder: Path


def reproduce(
    paper: Paper, experiment: Experiment, scale: Scale, output: Path, jobs: int | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> Reproduced:  # fmt: skip
    """Everything that ran before with the same settings, for whichever experiment, is used again."""
    folder = output / paper.name / experiment.name / scale
    setup = experiment.setup(scale)
    reason = experiment.untestable if setup is None else missing_data(setup)
    if setup is None or reason:
        findings = tuple(Finding(claim, "not testable here", reason=reason) for claim in experiment.claims)
        return write_result(Reproduced(paper, experiment, scale, findings, None, folder))
    planned = plan(setup, output)
    write_plans(planned)
    # For tiny runs, starting processes takes longer than running.
    play(list(dict.fromkeys(one.folder for one in planned)), progress, 1 if scale == "smoke" else jobs)
    values = experiment.study(**setup.options) if experiment.study else {}
    outcome = Outcome(experiment, setup, tuple(results(experiment.selection or experiment.measure, planned)), values)
    findings = tuple(judge(claim, outcome, scale) for claim in experiment.claims)
    return write_result(Reproduced(paper, experiment, scale, findings, outcome, folder))


def as_scale(text: str) -> Scale:
    check_choice("--scale", text, SCALES)
    return next(scale for scale in SCALES if scale == text)


def missing_data(setup: Setup) -> str:
    """Why the data cannot be had; empty when they can."""
    first = {data_of(cell): cell for cell in reversed(setup.cells)}
    for name, cell in first.items():
        try:
            federation_of(resolved(cell.candidates[0], 0).config)
        except InputError as error:
            if name in DATASETS and DATASETS[name].is_here is None:  # it needs no files
                raise  # not absent: a mistake in the settings
            return f"the data are not here: {error}"
    return ""


def plan(setup: Setup, output: Path) -> list[Planned]:
    """Every run, its settings checked; equal runs share a folder."""
    found: list[Planned] = []
    for cell in setup.cells:
        for point in cell.candidates:
            for seed in range(setup.seeds):
                config = resolved(point, seed)
                name = f"{config.config.data.name}-{config.config.algorithm.name}"
                folder = output / "runs" / f"{name}-{fingerprint(config.config)[:12]}"
                found.append(Planned(cell, point, config, folder))
    return found


def resolved(settings: Settings, seed: int) -> Resolved:
    # Several runs are played at once, each in one process.
    return combine([("driftless", {"engine.workers": 1, "run.seed": seed}), ("the paper", dict(settings))])


def total_rounds(planned: Sequence[Planned]) -> int:
    """Of runs that share a folder once."""
    return sum({one.folder: one.resolved.config.run.rounds for one in planned}.values())


def write_plans(planned: Sequence[Planned]) -> None:
    for one in planned:
        one.folder.mkdir(parents=True, exist_ok=True)
        file = one.folder / PLANNED
        if not file.exists():
            write_atomically(file, to_toml(one.resolved).encode())


def results(selection: Measure | None, planned: Sequence[Planned]) -> Iterator[Result]:
    """A cell's result is that of the point of its grid which is best on average."""
    cells: dict[int, list[Planned]] = {}
    for one in planned:
        cells.setdefault(id(one.cell), []).append(one)
    for runs in cells.values():
        cell = runs[0].cell
        points: dict[int, list[Planned]] = {}
        for one in runs:
            points.setdefault(id(one.point), []).append(one)
        tried = [Result(cell, tuple(Run(StoredRun(o.folder)) for o in part), chosen(part)) for part in points.values()]
        best = tried[0]
        for one in tried[1:]:
            assert selection is not None, "a grid needs a measure to choose by"
            if selection.is_better(selection(one).mean, selection(best).mean):
                best = one
        yield best


def chosen(runs: Sequence[Planned]) -> Mapping[str, Any]:
    return {key: runs[0].point[key] for key in runs[0].cell.grid}


def judge(claim: Claim, outcome: Outcome, scale: Scale) -> Finding:
    try:
        checks = tuple(claim.checks(outcome))
    except Missing as error:
        return Finding(claim, "not testable here", reason=str(error))
    if scale == "smoke":
        return Finding(claim, "not testable here", checks, SMOKE_REASON)
    if not checks:
        return Finding(claim, "not testable here", reason="nothing that this scale runs bears on it")
    share = sum(check.holds for check in checks) / len(checks)
    if share >= claim.required_share - 1e-9:
        return Finding(claim, "reproduced", checks)
    return Finding(claim, "partly" if share >= PARTLY else "contradicted", checks)


def write_result(done: Reproduced) -> Reproduced:
    """result.json and figure.png in the experiment's folder."""
    done.folder.mkdir(parents=True, exist_ok=True)
    write_json(done.folder / RESULT, record(done))
    if done.outcome and done.experiment.figure and (panels := list(done.experiment.figure(done.outcome))):
        draw(panels, done.folder / FIGURE)
    return done


def record(done: Reproduced) -> dict[str, Any]:
    """All that is published of an experiment, small enough to be committed."""
    outcome, setup = done.outcome, done.experiment.setup(done.scale)
    return {
        "paper": done.paper.name,
        "experiment": done.experiment.name,
        "scale": done.scale,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit(),
        "driftless": __version__,
        "seeds": setup.seeds if setup else 0,
        "runs": len(all_runs(outcome)),
        "seconds": round(sum(float(run.column("seconds").sum()) for run in all_runs(outcome)), 1),
        "cells": [as_json(done.experiment.measure, one) for one in outcome.results] if outcome else [],
        "claims": [
            {
                "name": finding.claim.name,
                "verdict": finding.verdict,
                "reason": finding.reason,
                "held": sum(check.holds for check in finding.checks),
                "checks": [{"text": check.text, "holds": check.holds} for check in finding.checks],
            }
            for finding in done.findings
        ],
    }


def all_runs(outcome: Outcome | None) -> list[Run]:
    """Each once, also where cells share it."""
    runs = {run.stored.path: run for result in (outcome.results if outcome else ()) for run in result.runs}
    return list(runs.values())


def as_json(measure: Measure | None, result: Result) -> dict[str, Any]:
    ours = measure(result) if measure else None
    return {
        "at": dict(result.cell.at),
        "ours": None if ours is None else [finite(ours.mean), finite(ours.std)],
        "published": list(result.cell.published) if result.cell.published else None,
        "diverged": result.diverged,
        "chosen": dict(result.settings),
    }


def finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None
