"""Figures 7 and 38: square root scaling of the server learning rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from driftless.papers.large_cohort.measures import (
    ACCURACY,
    FAILURES,
    TRAINED,
    by_cohort,
    cohort_size,
    final_accuracy,
    final_train_accuracy,
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
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Setup
from driftless.reproduce.figure import Panel, sweep
from driftless.reproduce.outcome import Outcome, Result, above, below


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
        yield above(f"{what}, training accuracy", final_train_accuracy(one), final_train_accuracy(plain), unit=" %")


def scaling_minor(outcome: Outcome) -> Iterable[Check]:
    for what, one, plain in scaled_pairs(outcome, few=False):
        yield below(
            f"{what}, training accuracy, up to 1 point",
            final_train_accuracy(one),
            final_train_accuracy(plain),
            by=-1,
            unit=" %",
        )


def scaling_mixed(outcome: Outcome) -> Iterable[Check]:
    changes = {
        what.partition(":")[0]: final_accuracy(one) - final_accuracy(plain)
        for what, one, plain in scaled_pairs(outcome)
    }
    text = "; ".join(f"{what} {change:+.2f}" for what, change in changes.items())
    yield Check(f"change of test accuracy in points: {text}", min(changes.values()) < 0 < max(changes.values()))


def never_fails(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.pick(scaling="square root"):
        rate = FAILURES(one).mean
        yield Check(f"{one.label}: {rate:.0f} % of the runs fail", rate == 0)


def scaling_panels(line: str) -> Callable[[Outcome], list[Panel]]:
    def panels(outcome: Outcome) -> list[Panel]:
        return [panel for measure in (TRAINED, ACCURACY) for panel in
                sweep(outcome, "cohort", measure, line=line, by="data", log_x=True)]  # fmt: skip

    return panels


FIGURE_7 = Experiment(
    name="figure-7",
    title="Square root scaling of the server learning rate",
    where="Figures 7 and 38, section 5.1 and B.7",
    about="FedAvg with a server learning rate that grows with the square root of the cohort size from M = 50 on, "
    "after a linear warm-up of 100 rounds, against the same rate for all cohorts.",
    paper=Setup(scaling_cells(PAPER_TASKS), seeds=5),
    small=Setup(scaling_cells(SMALL_TASKS), 2, REDUCED + " Warm-up over a fifteenth of the rounds, as there."),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "no-failures",
            "Square root scaling with clipping causes no catastrophic failures.",
            "No run with square root scaling has a round in which the training accuracy is halved.",
            never_fails,
        ),
        Claim(
            "trains-better",
            "In the tasks with few clients it improves the training accuracy.",
            "For each larger cohort in CIFAR-100 and Shakespeare (small scale: Sent140), training accuracy is higher "
            "with scaling.",
            scaling_trains,
        ),
        Claim(
            "minor-elsewhere",
            "In the tasks with many clients it brings little, or harms.",
            "For each larger cohort in EMNIST and Stack Overflow (small scale: Fashion-MNIST), training accuracy "
            "rises by less than 1 point.",
            scaling_minor,
        ),
        Claim(
            "mixed",
            "Over all tasks and cohort sizes the effect on test accuracy is mixed.",
            "There are both a task and cohort size where test accuracy rises with scaling and one where it falls.",
            scaling_mixed,
        ),
    ),
    figure=scaling_panels("scaling"),
)  # fmt: skip
