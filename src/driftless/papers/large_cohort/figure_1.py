"""Figure 1: catastrophic training failures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from driftless.papers.large_cohort.measures import FAILURES, by_cohort, cohort_size, failed, tasks_of
from driftless.papers.large_cohort.settings import CLIPPING, NO_CLIPPING, PAPER_TASKS, SMALL_TASKS, cells
from driftless.report.curves import Run
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Number, Setup
from driftless.reproduce.figure import Line, Panel, sweep
from driftless.reproduce.outcome import Outcome, above
from driftless.reproduce.published import published

PUBLISHED = published(__file__, "figure_1")
FAILING_RATE = 0.4
"""Of the clients at small scale; see `reduced`."""


def failures_at(outcome: Outcome, data: str, clipping: str) -> list[tuple[int, float]]:
    return [(cohort_size(one), FAILURES(one).mean) for one in by_cohort(outcome, data=data, clipping=clipping)]


def more_failures(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        rates = failures_at(outcome, data, "none")
        if len(rates) > 1:
            (few, low), (many, high) = rates[0], rates[-1]
            yield above(f"{data}: failures with M = {many} against M = {few}", high, low, unit=" %")


def clipping_helps(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        for cohort, rate in failures_at(outcome, data, "adaptive"):
            yield Check(f"{data}, M = {cohort}: {rate:.0f} % of the runs fail with clipping", rate == 0)


def spike(run: Run) -> float:
    """The norm of the update in the first round that failed, or before it, over the median norm until then."""
    failures = np.flatnonzero(run.column("failure") > 0)
    if not len(failures) or failures[0] < 2:
        return math.nan
    norms = run.column("norm_update")[: failures[0] + 1]
    return float(np.nanmax(norms[-2:]) / np.nanmedian(norms[:-2])) if len(norms) > 2 else math.nan


def norm_spikes(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.pick(clipping="none"):
        for seed, run in enumerate(one.runs):
            if not math.isnan(times := spike(run)):
                yield above(f"{one.label}, seed {seed}: norm before the failure in medians", times, 2.0)


def success_and_failure(outcome: Outcome) -> list[Panel]:
    """A run that went well beside one that did not, where there is one: accuracy and norm; and the failure rates."""
    panels = sweep(outcome, "cohort", FAILURES, line="clipping", by="data", log_x=True)
    one = max(outcome.pick(clipping="none"), key=lambda found: (FAILURES(found).mean, cohort_size(found)))
    for word, wanted in (("went well", False), ("failed", True)):
        runs = [run for run in one.runs if failed(run) == wanted and len(run.rounds)][:1]
        for run in runs:
            for key, title, log in (
                ("train_accuracy", "training accuracy", False),
                ("norm_update", "norm of the mean update", True),
            ):
                line = Line("", run.rounds.tolist(), run.column(key).tolist())
                panels.append(Panel(f"M = {cohort_size(one)}, a run that {word}", "rounds", title, (line,), log_y=log))
    return panels


def paper_cells() -> tuple[Cell, ...]:
    plain = cells(PAPER_TASKS, ["FedAvg"], lambda task: task.cohorts[1:], lambda task: NO_CLIPPING, clipping="none")
    clipped = cells(PAPER_TASKS, ["FedAvg"], lambda task: task.cohorts[1:], clipping="adaptive")
    return tuple(with_published(cell) for cell in (*plain, *clipped))


def with_published(cell: Cell) -> Cell:
    rate = PUBLISHED[str(cell.at["clipping"])].get(str(cell.at["cohort"])) if cell.at["data"] == "EMNIST" else None
    return cell if rate is None else replace(cell, published=Number(rate))


def small_cells() -> tuple[Cell, ...]:
    tasks = {"Fashion-MNIST": SMALL_TASKS["Fashion-MNIST"]}
    shorter = {"run.rounds": 12, "run.evaluate_every": 4, "local.lr": FAILING_RATE}
    return tuple(
        cell
        for name, clipping in (("none", NO_CLIPPING), ("adaptive", CLIPPING))
        for cell in cells(tasks, ["FedAvg"], more=lambda task, own=clipping: {**shorter, **own}, clipping=name)
    )


FIGURE_1 = Experiment(
    name="figure-1",
    title="Catastrophic training failures",
    where="Figure 1, section 3.1",
    about="FedAvg with learning rates tuned for ten clients a round, with and without adaptive clipping. A failure is "
    "a round in which the training accuracy falls to half or less.",
    paper=Setup(paper_cells(), seeds=5),
    small=Setup(
        small_cells(),
        seeds=3,
        reduced="Fashion-MNIST with an MLP and 900 clients instead of EMNIST; cohorts of 5, 20, 80 and 320; 12 "
        "rounds; three seeds. With the tuned client learning rate of 0.1 nothing failed in a trial. The rate is 0.4, "
        "the largest of 0.1, 0.3, 0.4, 0.5, 0.6 and 1 with which five clients a round still learned.",
    ),
    measure=FAILURES,
    columns="cohort",
    claims=(
        Claim(
            "more-with-cohort",
            "Without clipping, failures become more frequent with larger cohorts.",
            "In each task the share of failing runs is higher with the largest cohort than with the smallest.",
            more_failures,
        ),
        Claim(
            "spike",
            "A failure comes with a spike in the norm of the mean update.",
            "In each run that fails, the norm in the failing round or the one before is above twice the median until "
            "then.",
            norm_spikes,
            required_share=0.8,
        ),
        Claim(
            "clipping",
            "With adaptive clipping no run fails, whatever the cohort size.",
            "No run with clipping has a failure.",
            clipping_helps,
        ),
    ),
    figure=success_and_failure,
)  # fmt: skip
