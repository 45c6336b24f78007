"""Figure 3: generalisation failures of large cohorts."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.large_cohort.measures import (
    ACCURACY,
    TRAINED,
    by_cohort,
    cohort_size,
    tasks_of,
    train_and_test,
)
from driftless.papers.large_cohort.settings import paper_setup, small_setup
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Claim, Experiment
from driftless.reproduce.outcome import Outcome, Result


def reference_and_largest(outcome: Outcome, few: bool) -> Iterable[tuple[str, Result, Result]]:
    for data, task in tasks_of(outcome, few=few):
        for name in outcome.places("algorithm", data=data):
            start = outcome.one(data=data, algorithm=name, cohort=task.reference)
            end = by_cohort(outcome, data=data, algorithm=name)[-1]
            yield f"{data}, {name}, M = {cohort_size(end)} against {task.reference}", start, end


def trains_as_well_but_tests_worse(outcome: Outcome) -> Iterable[Check]:
    """The largest cohort trains as well as the reference and tests worse."""
    for what, start, end in reference_and_largest(outcome.part(algorithm="FedAdam"), few=True):
        yield above(f"{what}: training accuracy, up to 3 points", TRAINED(end), TRAINED(start), by=-3, unit=" %")
        yield below(f"{what}: test accuracy", ACCURACY(end), ACCURACY(start), unit=" %")


def tests_as_well(outcome: Outcome) -> Iterable[Check]:
    for what, start, end in reference_and_largest(outcome, few=False):
        yield above(f"{what}: test accuracy, up to 1 point", ACCURACY(end), ACCURACY(start), by=-1, unit=" %")


def tests_worse(outcome: Outcome) -> Iterable[Check]:
    for what, start, end in reference_and_largest(outcome, few=True):
        yield below(f"{what}: test accuracy", ACCURACY(end), ACCURACY(start), unit=" %")


def tests_no_worse(outcome: Outcome) -> Iterable[Check]:
    for what, start, end in reference_and_largest(outcome, few=True):
        yield above(f"{what}: test accuracy, up to half a point", ACCURACY(end), ACCURACY(start), by=-0.5, unit=" %")


FIGURE_3_ALGORITHMS = ("FedAvg", "FedAdam", "FedAdagrad")
FIGURE_3 = Experiment(
    name="figure-3",
    title="Generalisation failures of large cohorts",
    where="Figure 3, section 3.3",
    about="Accuracy of the model that is sent out, on the cohort and on the test set at the end, over the size of "
    "the cohort.",
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
            paper='CIFAR-100: "roughly the same training accuracy"; the median client 44.5 % with M = 50, 41.6 % with '
            "400 (Table 6)",
        ),
        Claim(
            "not-with-many-clients",
            "With many clients in the population there is no such failure.",
            "In each task with many clients (EMNIST, Stack Overflow; small scale: Fashion-MNIST) and each algorithm, "
            "the largest cohort's test accuracy is at most 1 point below that of M = 50 (20).",
            tests_as_well,
            paper='"does not occur"; EMNIST: the median client 85.4 % with M = 50, 86.2 % with 800 (Table 7)',
        ),
        Claim(
            "some-optimisers-fail",
            "Whether it happens depends on the optimiser: with some, the largest cohort generalises worse.",
            "In a task with few clients and for at least one of the three algorithms, test accuracy falls from M = 50 "
            "(20) to the largest cohort.",
            tests_worse,
            "any",
            paper='"often optimizer-dependent" (section 3.3); FedAdam falls on CIFAR-100',
        ),
        Claim(
            "some-optimisers-do-not",
            "... with others it does not.",
            "In a task with few clients and for at least one of the three algorithms, test accuracy falls by less than "
            "half a point from M = 50 (20) to the largest cohort.",
            tests_no_worse,
            "any",
            paper='"often optimizer-dependent" (section 3.3); drawn',
        ),
    ),
    figure=train_and_test,
)  # fmt: skip
