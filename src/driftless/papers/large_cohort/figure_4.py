"""Figure 4 and tables 6-9: fairness, as percentiles of accuracy over test clients."""

from __future__ import annotations

import math
from collections.abc import Iterable

from driftless.papers.large_cohort.measures import tasks_of
from driftless.papers.large_cohort.settings import PAPER_TASKS, SMALL_TASKS, run_settings
from driftless.reproduce.checks import Check, above, close
from driftless.reproduce.experiment import Cell, Claim, Experiment, Number, Setup
from driftless.reproduce.figure import sweep
from driftless.reproduce.intervals import Floats
from driftless.reproduce.outcome import Measure, Outcome, mean_of
from driftless.reproduce.published import published

PERCENTILES = (5, 25, 50, 75, 95)
PUBLISHED = published(__file__, "tables_6_9")
PERCENTILE = Measure(
    "accuracy (%) at a percentile of the clients",
    lambda r: r.final(f"test_p{r.cell.at['percentile']}"),
    100,
)


def fairness_cells() -> tuple[Cell, ...]:
    """CIFAR-100's test images belong to no clients here: 100 of the 500 clients are held out in their place."""
    held = {"data.validation": 100}
    return tuple(
        Cell(
            {"data": data, "percentile": percentile, "cohort": cohort},
            run_settings(PAPER_TASKS[data], "FedAdam", cohort, held if data == "CIFAR-100" else {}),
            Number(*numbers),
        )
        for data, rows in PUBLISHED.items()
        for percentile in PERCENTILES
        for cohort, numbers in zip(PAPER_TASKS[data].cohorts[1:], rows[str(percentile)], strict=True)
    )


def fairness_small() -> tuple[Cell, ...]:
    data = "Fashion-MNIST"
    return tuple(
        Cell(
            {"data": data, "percentile": percentile, "cohort": cohort},
            run_settings(SMALL_TASKS[data], "FedAdam", cohort),
        )
        for percentile in PERCENTILES
        for cohort in SMALL_TASKS[data].cohorts
    )


def percentile(outcome: Outcome, data: str, cohort: int, p: int) -> Floats:
    return outcome.measured(outcome.one(data=data, percentile=p, cohort=cohort))


def smallest_and_largest(outcome: Outcome, data: str) -> tuple[int, int]:
    cohorts = [int(cohort) for cohort in outcome.places("cohort", data=data)]
    return min(cohorts), max(cohorts)


def percentiles_move_alike(outcome: Outcome) -> Iterable[Check]:
    """All percentiles move as the median does: the median says in which direction."""
    for data, task in tasks_of(outcome):
        smallest, largest = smallest_and_largest(outcome, data)
        for start, end in ((smallest, task.reference), (task.reference, largest)):
            moves = {p: percentile(outcome, data, end, p) - percentile(outcome, data, start, p) for p in PERCENTILES}
            sign = math.copysign(1.0, mean_of(moves[50]))
            for p in PERCENTILES:
                if p != 50:
                    what = f"{data}, M = {start} to {end}: percentile {p} in the direction of the median, up to 1 point"
                    yield above(what, sign * moves[p], 0.0, by=-1, unit=" points")


def same_spread(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        before, after = (
            percentile(outcome, data, cohort, 75) - percentile(outcome, data, cohort, 25)
            for cohort in (task.reference, smallest_and_largest(outcome, data)[1])
        )
        yield from close(f"{data}: 75th minus 25th percentile, largest cohort against M = {task.reference}, up to 2",
                         after, before, 2, " points")  # fmt: skip


FIGURE_4 = Experiment(
    name="figure-4",
    title="Fairness: percentiles of accuracy over test clients",
    where="Figure 4 and tables 6-9, section 3.4 and B.4",
    about="Accuracy of FedAdam's model on each test client, at five percentiles of the clients, by cohort size.",
    paper=Setup(fairness_cells(), seeds=5),
    small=Setup(
        fairness_small(),
        seeds=3,
        most_seeds=6,
        reduced="Fashion-MNIST with an MLP; the test clients are 100 clients with labels as skewed as those that "
        "train; cohorts of 5 to 320, 100 rounds. The numbers of the paper's tables are kept with the "
        "paper's scale.",
    ),
    measure=PERCENTILE,
    columns="cohort",
    claims=(
        Claim(
            "alike",
            "The cohort size changes all percentiles in the same direction.",
            "From the smallest cohort to M = 50 (small scale: 20) and from there to the largest, each percentile "
            "moves as the median does on average, or against it by less than 1 point.",
            percentiles_move_alike,
        ),
        Claim(
            "same-spread",
            "Beyond some size, larger cohorts do not narrow the spread between clients.",
            "From M = 50 (20) to the largest cohort, the distance between the 75th and the 25th percentile changes by "
            "less than 2 points.",
            same_spread,
        ),
    ),
    figure=lambda outcome: sweep(outcome, "cohort", PERCENTILE, line="percentile", by="data", log_x=True),
)  # fmt: skip
