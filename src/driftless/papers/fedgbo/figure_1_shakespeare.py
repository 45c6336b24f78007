"""Figure 1: Shakespeare with 10 local steps."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.fedgbo.measures import mean_accuracy, pairs
from driftless.papers.fedgbo.rows import fastest, figure_row
from driftless.papers.fedgbo.settings import ADAPTIVE
from driftless.reproduce.experiment import Check, Claim
from driftless.reproduce.outcome import Outcome, below


def best_optimiser_is_sgdm(outcome: Outcome) -> Iterable[Check]:
    for name in ADAPTIVE:
        for text, one, sgdm in pairs(outcome, [name], ("RMSProp", "Adam"), (name, "SGDm")):
            yield below(f"mean accuracy, {text}", mean_accuracy(one), mean_accuracy(sgdm), unit=" %")


FIGURE_1_SHAKESPEARE = figure_row(
    1,
    "Shakespeare",
    (
        Claim(
            "mimelite-sgdm-fastest",
            "On Shakespeare Mimelite with SGDm converges fastest.",
            "Its test accuracy, mean over the run, exceeds that of each other combination and of FedAvg.",
            fastest("Mimelite", "SGDm"),
        ),
        Claim(
            "sgdm-fastest",
            "SGDm is the fastest of the three optimisers here.",
            "For each algorithm, the test accuracy, mean over the run, is lower with RMSProp and with Adam than with "
            "SGDm.",
            best_optimiser_is_sgdm,
            required_share=0.75,
        ),
    ),
)
