"""Figure 37: linear scaling of the server learning rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from driftless.papers.large_cohort.measures import FAILURES, by_cohort, cohort_size, failures, tasks_of
from driftless.papers.large_cohort.settings import (
    PAPER_TASKS,
    REDUCED,
    SMALL_TASKS,
    Task,
    cells,
    from_reference,
    scaled_server_lr,
)
from driftless.reproduce.checks import Check, mostly, seldom
from driftless.reproduce.experiment import Cell, Claim, Experiment, Number, Setup
from driftless.reproduce.figure import curves
from driftless.reproduce.outcome import Outcome
from driftless.reproduce.published import published

PUBLISHED = published(__file__, "figure_37")


def linear_cells(tasks: Mapping[str, Task]) -> tuple[Cell, ...]:
    return cells(tasks, ["FedAvg"], from_reference, scaled_server_lr("linear"), scaling="linear")


def with_published(cell: Cell) -> Cell:
    return replace(cell, published=Number(PUBLISHED[str(cell.at["cohort"])]))


def linear_fails(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        first, *_, last = by_cohort(outcome, data=data)
        yield seldom(f"{data}, M = {cohort_size(first)}: failures", failures(first), below=0.5)
        yield mostly(f"{data}, M = {cohort_size(last)}: failures", failures(last), above=0.5)


FIGURE_37 = Experiment(
    name="figure-37",
    title="Linear scaling of the server learning rate",
    where="Figure 37, appendix B.7",
    about="FedAvg on EMNIST with a server learning rate proportional to the cohort size from M = 50 on, with warm-up "
    "and adaptive clipping.",
    paper=Setup(tuple(map(with_published, linear_cells({"EMNIST": PAPER_TASKS["EMNIST"]}))), seeds=5),
    small=Setup(linear_cells(SMALL_TASKS), seeds=6, most_seeds=10, reduced=REDUCED),
    measure=FAILURES,
    columns="cohort",
    claims=(
        Claim(
            "fails",
            "Linear scaling is too aggressive: with the largest cohorts every run fails, in spite of clipping.",
            "In each task fewer than half of the runs fail with the reference cohort, M = 50 (small scale: 20), and "
            "more than half with the largest.",
            linear_fails,
            paper="0 % of the runs with M = 50 and 100, 100 % with M = 400 and 800",
        ),
    ),
    figure=lambda outcome: curves(outcome, "test_accuracy", by="data"),
)
