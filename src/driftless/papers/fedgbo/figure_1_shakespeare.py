"""Figure 1: Shakespeare with 10 local steps."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from driftless.papers.fedgbo.measures import faster, pairs
from driftless.papers.fedgbo.rows import fastest, figure_row
from driftless.papers.fedgbo.settings import ADAPTIVE
from driftless.reproduce.checks import Check
from driftless.reproduce.experiment import Claim
from driftless.reproduce.outcome import Outcome


def best_optimiser_is_sgdm(outcome: Outcome) -> Iterable[Check]:
    for name, other in product(ADAPTIVE, ("RMSProp", "Adam")):
        for pair in pairs(outcome, [name], ["SGDm"], (name, other)):
            yield faster(*pair)


FIGURE_1_SHAKESPEARE = figure_row(
    1,
    "Shakespeare",
    (
        Claim(
            "mimelite-sgdm-fastest",
            "On Shakespeare Mimelite with SGDm converges fastest.",
            "Its test accuracy, mean over the run, exceeds that of each other combination and of FedAvg.",
            fastest("Mimelite", "SGDm"),
            paper="“converges fastest”, drawn",
        ),
        Claim(
            "sgdm-fastest",
            "SGDm is the fastest of the three optimisers here.",
            "On average over the algorithms, the test accuracy, mean over the run, is higher with SGDm than with "
            "RMSProp and with Adam.",
            best_optimiser_is_sgdm,
            decided_by="average",
            paper="“the fastest convergence” is SGDm's, drawn",
        ),
    ),
)
