"""Figure 2: CIFAR-100 with 50 local steps."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.fedgbo.measures import highest_accuracy, mean_accuracy, pairs
from driftless.papers.fedgbo.rows import figure_row
from driftless.papers.fedgbo.settings import LOCALLY_ADAPTIVE
from driftless.reproduce.experiment import Check, Claim
from driftless.reproduce.outcome import Outcome, above, below


def mfl_matches(outcome: Outcome) -> Iterable[Check]:
    mfl, fedgbo = (highest_accuracy(outcome.one(algorithm=name, optimiser="SGDm")) for name in ("MFL", "FedGBO"))
    yield above("highest accuracy, MFL SGDm against FedGBO SGDm less one point", mfl, fedgbo - 1, unit=" %")


def mfl_by_optimiser(outcome: Outcome) -> Iterable[Check]:
    """On CIFAR-100 with K = 50: ahead with RMSProp, behind with Adam."""
    for rival in ("FedGBO", "Mimelite", "AdaptiveFedOpt"):
        for text, mfl, other in pairs(outcome, ["MFL"], ["RMSProp"], (rival, None)):
            yield above(f"highest accuracy, {text}", highest_accuracy(mfl), highest_accuracy(other), unit=" %")
    for rival in ("FedGBO", "Mimelite"):
        for text, mfl, other in pairs(outcome, ["MFL"], ["Adam"], (rival, None)):
            yield below(f"highest accuracy, {text}", highest_accuracy(mfl), highest_accuracy(other), by=1, unit=" %")


def fedopt_is_last(outcome: Outcome) -> Iterable[Check]:
    for rival in LOCALLY_ADAPTIVE:
        for text, fedopt, other in pairs(outcome, ["AdaptiveFedOpt"], ["Adam"], (rival, None)):
            yield below(f"mean accuracy, {text}", mean_accuracy(fedopt), mean_accuracy(other), unit=" %")


FIGURE_2_CIFAR100 = figure_row(
    2,
    "CIFAR100",
    (
        Claim(
            "mfl-matches",
            "With SGDm and 50 local steps MFL is as good as FedGBO.",
            "MFL's highest accuracy is at most one point below FedGBO's.",
            mfl_matches,
        ),
        Claim(
            "mfl-adam",
            "MFL is the best with RMSProp, but substantially worse than FedGBO and Mimelite with Adam.",
            "MFL's highest accuracy exceeds those of the three others with RMSProp, and is more than one point below "
            "those of FedGBO and Mimelite with Adam.",
            mfl_by_optimiser,
            required_share=0.8,
        ),
        Claim(
            "fedopt-last",
            "AdaptiveFedOpt with Adam, which was second with 10 local steps, is the worst with 50.",
            "Its test accuracy, mean over the run, is below that of the three others with Adam.",
            fedopt_is_last,
        ),
    ),
)
