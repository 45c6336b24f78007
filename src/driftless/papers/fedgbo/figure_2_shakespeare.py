"""Figure 2: Shakespeare with 50 local steps."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from driftless.papers.fedgbo.measures import early_accuracy, mean_accuracy, pairs
from driftless.papers.fedgbo.rows import figure_row
from driftless.papers.fedgbo.settings import OPTIMISERS
from driftless.reproduce.experiment import Check, Claim
from driftless.reproduce.outcome import Outcome, above


def mfl_and_fedavg_lead(outcome: Outcome) -> Iterable[Check]:
    for leader, rival in product(("MFL", "FedAvg"), ("FedGBO", "Mimelite")):
        for text, one, other in pairs(outcome, [leader], OPTIMISERS, (rival, None)):
            yield above(f"mean accuracy, {text}", mean_accuracy(one), mean_accuracy(other), unit=" %")
            yield above(f"accuracy in the first fifth, {text}", early_accuracy(one), early_accuracy(other), unit=" %")


FIGURE_2_SHAKESPEARE = figure_row(
    2,
    "Shakespeare",
    (
        Claim(
            "mfl-fedavg-lead",
            "With 50 local steps MFL and FedAvg do best, and FedGBO and Mimelite start poorly.",
            "With each optimiser, the accuracies of MFL and of FedAvg, mean over the run and over its first fifth, "
            "exceed those of FedGBO and of Mimelite.",
            mfl_and_fedavg_lead,
            required_share=0.8,
        ),
    ),
)
