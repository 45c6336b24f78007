"""Figure 1: catastrophic training failures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from driftless.papers.large_cohort.measures import FAILURES, by_cohort, cohort_size, failed, failures
from driftless.papers.large_cohort.settings import CLIPPING, NO_CLIPPING, PAPER_TASKS, SMALL_TASKS, cells
from driftless.report.curves import Run
from driftless.reproduce.checks import Check, more_often, mostly, seldom
from driftless.reproduce.experiment import Cell, Claim, Experiment, Number, Setup
from driftless.reproduce.figure import Line, Panel, in_per_cent, sweep
from driftless.reproduce.outcome import Outcome, label
from driftless.reproduce.published import published

PUBLISHED = published(__file__, "figure_1")
SMALL_RATES = (0.1, 0.3, 0.5)
"""Of the clients: the tuned one, and larger ones."""
SMALL_COHORTS = (20, 80, 320)


def more_failures(outcome: Outcome) -> Iterable[Check]:
    for rest, _ in outcome.part(clipping="none").groups("cohort"):
        found = by_cohort(outcome, **rest)
        few, many = found[0], found[-1]
        what = f"{label(rest)}: failures with M = {cohort_size(many)} against M = {cohort_size(few)}"
        yield more_often(what, failures(many), failures(few))


def clipping_helps(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.pick(clipping="adaptive"):
        yield seldom(f"{one.label}: failures", failures(one), below=0.1)


def spike(run: Run) -> float:
    """The norm of the update in the first round that failed, or before it, over the median norm until then."""
    failures = np.flatnonzero(run.column("failure") > 0)
    if not len(failures) or failures[0] < 2:
        return math.nan
    norms = run.column("norm_update")[: failures[0] + 1]
    return float(np.nanmax(norms[-2:]) / np.nanmedian(norms[:-2])) if len(norms) > 2 else math.nan


def norm_spikes(outcome: Outcome) -> Iterable[Check]:
    times = [spike(run) for one in outcome.pick(clipping="none") for run in one.runs]
    known = [value for value in times if not math.isnan(value)]
    if known:
        yield mostly("failures after more than twice the median norm", [value > 2 for value in known], above=0.75)


def until_failure(run: Run) -> slice:
    """Later norms may be as large as numbers can be."""
    failures = np.flatnonzero(run.column("failure") > 0)
    return slice(int(failures[0]) + 1) if len(failures) else slice(None)


def success_and_failure(outcome: Outcome) -> list[Panel]:
    """A run that went well beside one that did not, where there is one: accuracy and norm; and the failure rates."""
    by = "rate" if outcome.places("rate") else "data"
    rates = sweep(outcome, "cohort", FAILURES, line="clipping", by=by, log_x=True)
    panels = sorted(rates, key=lambda panel: -max(max(line.y) for line in panel.lines))[:2]
    one = max(outcome.pick(clipping="none"), key=lambda found: (sum(failures(found)), cohort_size(found)))
    for word, wanted in (("went well", False), ("failed", True)):
        runs = [run for run in one.runs if failed(run) == wanted and len(run.rounds)][:1]
        for run in runs:
            for key, title, log in (
                ("cohort_accuracy", "training accuracy (%)", False),
                ("norm_update", "norm of the mean update", True),
            ):
                shown = until_failure(run)
                line = Line("", run.rounds[shown].tolist(), (in_per_cent(key) * run.column(key)[shown]).tolist())
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
    return tuple(
        cell
        for rate in SMALL_RATES
        for name, clipping in (("none", NO_CLIPPING), ("adaptive", CLIPPING))
        for cell in cells(tasks, ["FedAvg"], lambda task: SMALL_COHORTS,
                          lambda task, own=clipping, lr=rate: {**own, "local.lr": lr}, rate=rate, clipping=name)
    )  # fmt: skip


FIGURE_1 = Experiment(
    name="figure-1",
    title="Catastrophic training failures",
    where="Figure 1, section 3.1",
    about="FedAvg with learning rates tuned for ten clients a round, with and without adaptive clipping. A failure is "
    "a round in which the training accuracy (of the model that is sent out, on the cohort) falls to half or less.",
    paper=Setup(paper_cells(), seeds=5),
    small=Setup(
        small_cells(),
        seeds=6,
        most_seeds=10,
        reduced="Fashion-MNIST with an MLP and 900 clients instead of EMNIST; cohorts of 20, 80 and 320; 100 rounds; "
        "client learning rates of 0.1 (the tuned one), 0.3 and 0.5.",
    ),
    measure=FAILURES,
    columns="cohort",
    claims=(
        Claim(
            "more-with-cohort",
            "Without clipping, failures become more frequent with larger cohorts.",
            "On average over the tasks (small scale: the learning rates), more seeds fail with the largest cohort than "
            "with the smallest.",
            more_failures,
            "average",
            paper="0 % of the runs with M = 10, 80 % with M = 800 (EMNIST)",
        ),
        Claim(
            "spike",
            "A failure comes with a spike in the norm of the mean update.",
            "In more than three quarters of the runs that fail, the norm in the failing round or the one before is "
            "above twice the median until then.",
            norm_spikes,
            paper="consistently",
        ),
        Claim(
            "clipping",
            "With adaptive clipping no run fails, whatever the cohort size.",
            "Of all runs with clipping, fewer than a tenth fail.",
            clipping_helps,
            "average",
            paper="no failure for any cohort size",
        ),
    ),
    figure=success_and_failure,
)  # fmt: skip
