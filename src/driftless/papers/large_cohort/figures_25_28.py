"""Figures 25-28: simulated time with stragglers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from driftless.config.build import cohort_of, federation_of
from driftless.data.cohorts import as_schedule
from driftless.engine.stragglers import round_time
from driftless.papers.large_cohort.measures import by_cohort, cohort_size, tasks_of
from driftless.papers.large_cohort.settings import PAPER_TASKS, REDUCED, SMALL_TASKS, TASKS, Task, cells
from driftless.report.curves import Run, first_reach
from driftless.report.metrics import metric
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.figure import Line, Panel
from driftless.reproduce.outcome import Measure, Outcome, Result, mean_of
from driftless.runs.directory import StoredRun

LAMBDAS = (0.1, 1.0, 10.0, 100.0)
Floats = NDArray[np.float64]


@cache
def cohort_sizes(folder: Path) -> tuple[NDArray[np.int64], ...]:
    """The numbers of examples of each round's clients: a run's settings and its seed say them all."""
    config = StoredRun(folder).config
    federation, schedule = federation_of(config), as_schedule(cohort_of(config))
    rounds = range(1, config.run.rounds + 1)
    return tuple(federation.sizes[schedule.clients(t, federation.clients, config.run.seed)] for t in rounds)


def elapsed(run: Run, lambda_: float) -> Floats:
    """Simulated time until the end of each round, for this straggler parameter and alpha = 1, [rounds].

    The recorded time is for one parameter only; the training does not depend on it, so one run serves for all.
    """
    sizes, seed = cohort_sizes(run.stored.path), run.stored.seed
    return np.cumsum([round_time(sizes[t - 1], 1.0, lambda_, seed, int(t)) for t in run.rounds])


def time_to(result: Result, target: float, lambda_: float) -> Floats:
    """Simulated time until the accuracy is first reached; infinite if never."""

    def of(run: Run) -> float:
        place = first_reach(run, metric("test_accuracy"), target)
        return math.inf if place is None else float(elapsed(run, lambda_)[place])

    return result.of_runs(of)


def straggler_cells(tasks: Mapping[str, Task], start: int) -> tuple[Cell, ...]:
    """The runs of figure 2; the cells of a run differ only in the parameter of the clock."""
    return tuple(
        Cell({**cell.at, "λ": lambda_}, cell.settings)
        for lambda_ in LAMBDAS
        for cell in cells(tasks, ["FedAvg"], lambda task: task.cohorts[start:])
    )


STRAGGLED = Measure(
    "simulated time to the task's accuracy (α = 1)",
    lambda r: time_to(r, TASKS[str(r.cell.at["data"])].target, float(r.cell.at["λ"])),
    better="low",
    digits=0,
)
SHARES = (0.8, 0.95)
"""A low and a high accuracy: parts of what the smallest cohort attains at its best."""


def relative_time(outcome: Outcome, data: str, share: float, lambda_: float) -> Floats:
    """The time of the largest cohort over that of the smallest, to a part of what the smallest attains."""
    found = by_cohort(outcome, data=data, λ=lambda_)
    target = share * mean_of(found[0].best())
    with np.errstate(invalid="ignore"):
        return time_to(found[-1], target, lambda_) / time_to(found[0], target, lambda_)


def takes_as_long(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        ratio = relative_time(outcome, data, SHARES[1], LAMBDAS[0])
        yield below(f"{data}, λ = {LAMBDAS[0]:g}: time of the largest over the smallest cohort", ratio, 1.5)


def slower_with_stragglers(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        for share in SHARES:
            one, other = (relative_time(outcome, data, share, lambda_) for lambda_ in (LAMBDAS[-1], LAMBDAS[0]))
            what = f"{data}, to {100 * share:g} % of the smallest cohort's best: relative time with λ = 100 against 0.1"
            yield above(what, one, other)


def slower_early(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        low, high = (relative_time(outcome, data, share, LAMBDAS[-1]) for share in SHARES)
        yield above(f"{data}, λ = 100: relative time to a low accuracy against a high one", low, high)


def straggler_panels(outcome: Outcome) -> list[Panel]:
    """Time relative to the smallest cohort, over the accuracy to reach."""
    panels = []
    for data, _ in tasks_of(outcome):
        for lambda_ in (LAMBDAS[0], LAMBDAS[1], LAMBDAS[-1]):
            first, *others = by_cohort(outcome, data=data, λ=lambda_)
            best = mean_of(first.best())
            targets = [] if math.isnan(best) else np.linspace(0.5 * best, best, 26).tolist()
            base = [mean_of(time_to(first, target, lambda_)) for target in targets]
            lines = []
            for one in others:
                pairs = [
                    (t, mean_of(time_to(one, t, lambda_)) / b)
                    for t, b in zip(targets, base, strict=True)
                    if math.isfinite(b)
                ]
                kept = [(target, ratio) for target, ratio in pairs if math.isfinite(ratio)]
                lines.append(Line(f"M = {cohort_size(one)}", [100 * t for t, _ in kept], [ratio for _, ratio in kept]))
            title = f"{data}, λ = {lambda_:g}"
            panels.append(
                Panel(title, "test accuracy (%) to reach", f"time relative to M = {cohort_size(first)}", tuple(lines))
            )
    return panels


FIGURES_25_28 = Experiment(
    name="figures-25-28",
    title="Simulated time with stragglers",
    where="Figures 25-28, appendix B.5",
    about="A client with n examples needs αn plus an exponential time of mean λn; a round lasts as long as its "
    "slowest client. Time of FedAvg to an accuracy, relative to ten clients a round.",
    paper=Setup(straggler_cells(PAPER_TASKS, start=1), seeds=5),
    small=Setup(
        straggler_cells(SMALL_TASKS, start=0), 3, 6, reduced=REDUCED + " Times are relative to 5 clients a round."
    ),
    measure=STRAGGLED,
    columns="cohort",
    claims=(
        Claim(
            "comparable",
            "With few stragglers, larger cohorts take about as long as ten clients a round.",
            "With λ = 0.1 the largest cohort takes less than 1.5 times as long as the smallest to 95 % of the "
            "smallest's best accuracy.",
            takes_as_long,
            paper='"a comparable amount of time" for small λ (B.5); drawn',
        ),
        Claim(
            "slower",
            "The more stragglers, the more time large cohorts take in comparison.",
            "The relative time of the largest cohort is longer with λ = 100 than with 0.1, to 80 and to 95 % of the "
            "smallest's best accuracy.",
            slower_with_stragglers,
            paper='"5-10 times more client compute time" for large λ (B.5)',
        ),
        Claim(
            "slower-early",
            "The disadvantage is largest for low accuracies.",
            "With λ = 100 the relative time of the largest cohort is longer to 80 % of the smallest's best accuracy "
            "than to 95 %.",
            slower_early,
            paper='"particularly large increases" for low accuracies (B.5); drawn',
        ),
    ),
    figure=straggler_panels,
)  # fmt: skip
