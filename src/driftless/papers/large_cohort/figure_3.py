"""Figure 3: generalisation failures of large cohorts."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.large_cohort.measures import (
    ACCURACY,
    by_cohort,
    cohort_size,
    final_accuracy,
    final_train_accuracy,
    tasks_of,
    train_and_test,
)
from driftless.papers.large_cohort.settings import paper_setup, small_setup
from driftless.reproduce.experiment import Check, Claim, Experiment
from driftless.reproduce.outcome import Outcome, above, below


def trains_as_well_but_tests_worse(outcome: Outcome) -> Iterable[Check]:
    """The largest cohort trains as well as the reference and tests worse."""
    for data, task in tasks_of(outcome, few=True):
        start = outcome.one(data=data, algorithm="FedAdam", cohort=task.reference)
        end = by_cohort(outcome, data=data, algorithm="FedAdam")[-1]
        what = f"{data}, FedAdam, M = {cohort_size(end)} against {task.reference}"
        yield above(
            f"{what}: training accuracy, up to 3 points",
            final_train_accuracy(end),
            final_train_accuracy(start),
            by=-3,
            unit=" %",
        )
        yield below(f"{what}: test accuracy", final_accuracy(end), final_accuracy(start), unit=" %")


def tests_as_well(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome, few=False):
        for name in outcome.places("algorithm", data=data):
            start = final_accuracy(outcome.one(data=data, algorithm=name, cohort=task.reference))
            end = final_accuracy(by_cohort(outcome, data=data, algorithm=name)[-1])
            yield above(
                f"{data}, {name}: most clients against M = {task.reference}, up to 1 point",
                end,
                start,
                by=-1,
                unit=" %",
            )


def depends_on_optimiser(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome, few=True):
        changes = {}
        for name in outcome.places("algorithm", data=data):
            start = outcome.one(data=data, algorithm=name, cohort=task.reference)
            changes[name] = final_accuracy(by_cohort(outcome, data=data, algorithm=name)[-1]) - final_accuracy(start)
        text = ", ".join(f"{name} {change:+.2f}" for name, change in changes.items())
        yield Check(
            f"{data}, change of test accuracy in points: {text}", min(changes.values()) < 0 <= max(changes.values())
        )


FIGURE_3_ALGORITHMS = ("FedAvg", "FedAdam", "FedAdagrad")
FIGURE_3 = Experiment(
    name="figure-3",
    title="Generalisation failures of large cohorts",
    where="Figure 3, section 3.3",
    about="Accuracy in training and on the test set at the end, over the size of the cohort. Here training accuracy "
    "is that of the clients' batches during local training.",
    paper=paper_setup(*FIGURE_3_ALGORITHMS),
    small=small_setup(*FIGURE_3_ALGORITHMS),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "worse-with-few-clients",
            "Where the cohort is a large part of few clients, FedAdam trains equally well with more clients a round "
            "but generalises worse.",
            "In each task with few clients (CIFAR-100, Shakespeare; small scale: Sent140), the largest cohort against "
            "M = 50 (20): training accuracy no more than 3 points lower, test accuracy lower.",
            trains_as_well_but_tests_worse,
        ),
        Claim(
            "not-with-many-clients",
            "With many clients in the population there is no such failure.",
            "In each task with many clients (EMNIST, Stack Overflow; small scale: Fashion-MNIST) and each algorithm, "
            "the largest cohort's test accuracy is at most 1 point below that of M = 50 (20).",
            tests_as_well,
        ),
        Claim(
            "depends-on-optimiser",
            "Whether it happens depends on the optimiser.",
            "In each task with few clients, test accuracy falls from M = 50 (20) to the largest cohort for at least "
            "one of the three algorithms and does not for at least one.",
            depends_on_optimiser,
        ),
    ),
    figure=train_and_test,
)  # fmt: skip
