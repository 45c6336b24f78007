"""Figures 7 and 38: square root scaling of the server learning rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from driftless.papers.large_cohort.measures import (
    ACCURACY,
    TRAINED,
    by_cohort,
    cohort_size,
    failures,
    tasks_of,
)
from driftless.papers.large_cohort.settings import (
    PAPER_TASKS,
    REDUCED,
    SMALL_TASKS,
    Task,
    above_reference,
    cells,
    from_reference,
    scaled_server_lr,
)
from driftless.reproduce.checks import Check, above, below, seldom
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import Outcome, Result


def scaling_cells(tasks: Mapping[str, Task]) -> tuple[Cell, ...]:
    return (
        *cells(tasks, ["FedAvg"], from_reference, scaling="none"),
        *cells(tasks, ["FedAvg"], above_reference, scaled_server_lr("sqrt"), scaling="square root"),
    )


def scaled_pairs(outcome: Outcome, few: bool | None = None) -> Iterable[tuple[str, Result, Result]]:
    """What is compared, the scaled and the unscaled run."""
    for data, _ in tasks_of(outcome, few=few):
        for one in by_cohort(outcome, data=data, scaling="square root"):
            plain = outcome.one(data=data, scaling="none", cohort=cohort_size(one))
            yield f"{data}, M = {cohort_size(one)}: scaled against not", one, plain


def scaling_trains(outcome: Outcome) -> Iterable[Check]:
    for what, one, plain in scaled_pairs(outcome, few=True):
        yield above(f"{what}, training accuracy", TRAINED(one), TRAINED(plain), unit=" %")


def scaling_minor(outcome: Outcome) -> Iterable[Check]:
    for what, one, plain in scaled_pairs(outcome, few=False):
        yield below(f"{what}, training accuracy, up to 1 point", TRAINED(one), TRAINED(plain), by=-1, unit=" %")


def test_rises(outcome: Outcome) -> Iterable[Check]:
    for what, one, plain in scaled_pairs(outcome):
        yield above(f"{what}, test accuracy", ACCURACY(one), ACCURACY(plain), unit=" %")


def test_falls(outcome: Outcome) -> Iterable[Check]:
    for what, one, plain in scaled_pairs(outcome):
        yield below(f"{what}, test accuracy", ACCURACY(one), ACCURACY(plain), unit=" %")


def never_fails(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.pick(scaling="square root"):
        yield seldom(f"{one.label}: failures", failures(one), below=0.2)


def scaling_panels(outcome: Outcome) -> list[Panel]:
    return [panel for key in ("cohort_accuracy", "test_accuracy") for panel in curves(outcome, key, by="data")]


FIGURE_7 = Experiment(
    name="figure-7",
    title="Square root scaling of the server learning rate",
    where="Figures 7 and 38, section 5.1 and B.7",
    about="FedAvg with a server learning rate that grows with the square root of the cohort size from M = 50 on, "
    "after a linear warm-up of 100 rounds, against the same rate for all cohorts.",
    paper=Setup(scaling_cells(PAPER_TASKS), seeds=5),
    small=Setup(
        scaling_cells(SMALL_TASKS), 6, 10, reduced=REDUCED + " Warm-up over a fifteenth of the rounds, as there."
    ),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "no-failures",
            "Square root scaling with clipping causes no catastrophic failures.",
            "Of all runs with square root scaling fewer than a fifth have a round in which the training accuracy is "
            "halved.",
            never_fails,
            "average",
            paper="no failures",
        ),
        Claim(
            "trains-better",
            "In the tasks with few clients it improves the training accuracy.",
            "For each larger cohort in CIFAR-100 and Shakespeare (small scale: Sent140), training accuracy is higher "
            "with scaling.",
            scaling_trains,
            paper='"significant improvements" on CIFAR-100 and Shakespeare (B.7)',
        ),
        Claim(
            "minor-elsewhere",
            "In the tasks with many clients it brings little, or harms.",
            "For each larger cohort in EMNIST and Stack Overflow (small scale: Fashion-MNIST), training accuracy "
            "rises by less than 1 point.",
            scaling_minor,
            paper='"only minor improvements (or a degradation in training accuracy)" on EMNIST and Stack Overflow '
            "(B.7)",
        ),
        Claim(
            "rises-somewhere",
            "The effect on test accuracy is mixed: it rises for some tasks and cohort sizes.",
            "There are a task and a cohort size where test accuracy is higher with scaling.",
            test_rises,
            "any",
            paper="rises on CIFAR-100 (B.7)",
        ),
        Claim(
            "falls-somewhere",
            "... and falls for others.",
            "There are a task and a cohort size where test accuracy is lower with scaling.",
            test_falls,
            "any",
            paper='on Shakespeare "worse generalization across the board" (B.7)',
        ),
    ),
    figure=scaling_panels,
)  # fmt: skip
