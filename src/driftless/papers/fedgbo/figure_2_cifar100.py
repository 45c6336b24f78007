"""Figure 2: CIFAR-100 with 50 local steps."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.fedgbo.measures import faster, higher, pairs
from driftless.papers.fedgbo.rows import figure_row
from driftless.papers.fedgbo.settings import LOCALLY_ADAPTIVE
from driftless.reproduce.checks import Check
from driftless.reproduce.experiment import Claim
from driftless.reproduce.outcome import Outcome


def mfl_matches(outcome: Outcome) -> Iterable[Check]:
    for pair in pairs(outcome, ["MFL"], ["SGDm"], ("FedGBO", "SGDm")):
        yield higher(*pair, by=-1)


def mfl_by_optimiser(outcome: Outcome) -> Iterable[Check]:
    """Ahead with RMSProp, behind with Adam."""
    for rival in ("FedGBO", "Mimelite", "AdaptiveFedOpt"):
        for pair in pairs(outcome, ["MFL"], ["RMSProp"], (rival, None)):
            yield higher(*pair)
    for pair in pairs(outcome, ("FedGBO", "Mimelite"), ["Adam"], ("MFL", None)):
        yield higher(*pair, by=1)


def fedopt_is_last(outcome: Outcome) -> Iterable[Check]:
    for pair in pairs(outcome, LOCALLY_ADAPTIVE, ["Adam"], ("AdaptiveFedOpt", None)):
        yield faster(*pair)


FIGURE_2_CIFAR100 = figure_row(
    2,
    "CIFAR100",
    (
        Claim(
            "mfl-matches",
            "With SGDm and 50 local steps MFL is as good as FedGBO.",
            "MFL's highest accuracy is less than one point below FedGBO's.",
            mfl_matches,
            paper="“can match FedGBO”, drawn",
        ),
        Claim(
            "mfl-adam",
            "MFL is the best with RMSProp, but substantially worse than FedGBO and Mimelite with Adam.",
            "MFL's highest accuracy exceeds those of the three others with RMSProp, and is more than one point below "
            "those of FedGBO and Mimelite with Adam.",
            mfl_by_optimiser,
            paper="“fared best with RMSProp”, “substantially worse” with Adam, drawn",
        ),
        Claim(
            "fedopt-last",
            "AdaptiveFedOpt with Adam, which was second with 10 local steps, is the worst with 50.",
            "Its test accuracy, mean over the run, is below that of the three others with Adam.",
            fedopt_is_last,
            paper="“the worst performance for K = 50”, drawn",
        ),
    ),
)
