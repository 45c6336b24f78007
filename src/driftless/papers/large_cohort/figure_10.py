"""Figures 10 and 41: normalised FedAvg."""

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
from driftless.papers.large_cohort.settings import TASKS, paper_setup, small_setup
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Claim, Experiment
from driftless.reproduce.outcome import Outcome, Result


def normalised_pairs(outcome: Outcome, few: bool) -> Iterable[tuple[str, Result, Result]]:
    for data, _ in tasks_of(outcome, few=few):
        for one in by_cohort(outcome, data=data, algorithm="normalised FedAvg"):
            plain = outcome.one(data=data, algorithm="FedAvg", cohort=cohort_size(one))
            yield f"{data}, M = {cohort_size(one)}: normalised against plain, training accuracy", one, plain


def normalised_better(outcome: Outcome) -> Iterable[Check]:
    for what, one, plain in normalised_pairs(outcome, few=True):
        if cohort_size(one) > TASKS[str(one.cell.at["data"])].reference:
            yield above(what, TRAINED(one), TRAINED(plain), unit=" %")


def normalised_worse(outcome: Outcome) -> Iterable[Check]:
    for what, one, plain in normalised_pairs(outcome, few=False):
        if one.cell.at["data"] != "Stack Overflow":
            yield below(what, TRAINED(one), TRAINED(plain), unit=" %")


FIGURE_10 = Experiment(
    name="figure-10",
    title="Normalised FedAvg",
    where="Figures 10 and 41, section 5.4 and B.9",
    about="The mean update is divided by its norm before the server's step, with FedAvg's own learning rates.",
    paper=paper_setup("FedAvg", "normalised FedAvg", cohorts=lambda task: task.cohorts[1:]),
    small=small_setup("FedAvg", "normalised FedAvg"),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "better-with-few-clients",
            "For large cohorts, normalisation improves the training accuracy on CIFAR-100 and Shakespeare.",
            "For each cohort above M = 50 (small scale: 20, Sent140), training accuracy is higher with normalisation.",
            normalised_better,
            paper='"better training accuracy for larger cohorts", on most tasks (section 5.4); drawn',
        ),
        Claim(
            "worse-on-emnist",
            "On EMNIST it is slightly worse for all cohort sizes.",
            "On average over the cohort sizes on EMNIST (small scale: Fashion-MNIST), training accuracy is lower with "
            "normalisation.",
            normalised_worse,
            "average",
            paper='"slightly worse for all cohort sizes" (section 5.4); drawn',
        ),
    ),
    figure=train_and_test,
)
