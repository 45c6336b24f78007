"""Figure 1, first row: CIFAR-100 with 10 local steps."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.fedgbo.measures import faster, pairs
from driftless.papers.fedgbo.rows import fastest, figure_row
from driftless.papers.fedgbo.settings import ADAPTIVE, OPTIMISERS
from driftless.reproduce.checks import Check
from driftless.reproduce.experiment import Claim
from driftless.reproduce.outcome import Outcome

SIGNIFICANT = 1.1


def faster_than_fedavg(outcome: Outcome) -> Iterable[Check]:
    for pair in pairs(outcome, ADAPTIVE, OPTIMISERS, ("FedAvg", None)):
        yield faster(*pair, times=SIGNIFICANT)


def mfl_is_slower(outcome: Outcome) -> Iterable[Check]:
    for pair in pairs(outcome, ["FedGBO"], ["SGDm"], ("MFL", "SGDm")):
        yield faster(*pair, times=SIGNIFICANT)


def fedopt_over_mimelite(outcome: Outcome) -> Iterable[Check]:
    for pair in pairs(outcome, ["AdaptiveFedOpt"], ["Adam"], ("Mimelite", "Adam")):
        yield faster(*pair)


FIGURE_1_CIFAR100 = figure_row(
    1,
    "CIFAR100",
    (
        Claim(
            "fedgbo-sgdm-fastest",
            "On CIFAR-100 FedGBO with SGDm converges fastest of all combinations.",
            "Its test accuracy, mean over the run, exceeds that of each other combination that is run and of FedAvg.",
            fastest("FedGBO", "SGDm"),
            paper="“converges fastest”, drawn",
        ),
        Claim(
            "speed-up",
            "On this harder task the adaptive algorithms are significantly faster than FedAvg.",
            "On average over algorithms and optimisers, the test accuracy, mean over the run, is more than 1.1 times "
            "FedAvg's.",
            faster_than_fedavg,
            decided_by="average",
            paper="“significant speedup”, drawn",
        ),
        Claim(
            "mfl-slower",
            "With SGDm, MFL converges significantly more slowly than FedGBO.",
            "The test accuracy of FedGBO, mean over the run, is more than 1.1 times MFL's.",
            mfl_is_slower,
            paper="“significantly slower convergence”, drawn",
        ),
        Claim(
            "fedopt-adam",
            "With Adam, AdaptiveFedOpt converges faster than Mimelite.",
            "Its test accuracy, mean over the run, is higher.",
            fedopt_over_mimelite,
            paper="“second-best convergence (above Mimelite)”, drawn",
        ),
    ),
)
