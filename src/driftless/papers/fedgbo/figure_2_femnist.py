"""Figure 2: FEMNIST with 50 local steps."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.fedgbo.measures import combinations_of, early_accuracy, highest_accuracy, pairs
from driftless.papers.fedgbo.rows import figure_row, little_benefit
from driftless.reproduce.experiment import Check, Claim
from driftless.reproduce.outcome import Outcome, above, below


def mfl_adam_starts_fastest(outcome: Outcome) -> Iterable[Check]:
    mfl = early_accuracy(outcome.one(algorithm="MFL", optimiser="Adam"))
    for text, other in combinations_of(outcome):
        if text != "MFL Adam":
            yield above(f"accuracy in the first fifth, MFL Adam against {text}", mfl, early_accuracy(other), unit=" %")


def mimelite_comes_late(outcome: Outcome) -> Iterable[Check]:
    for text, mimelite, fedavg in pairs(outcome, ["Mimelite"], ["SGDm"], ("FedAvg", "SGDm")):
        yield below(f"accuracy in the first fifth, {text}", early_accuracy(mimelite), early_accuracy(fedavg), unit=" %")
        yield above(f"highest accuracy, {text}", highest_accuracy(mimelite), highest_accuracy(fedavg), unit=" %")


FIGURE_2_FEMNIST = figure_row(
    2,
    "FEMNIST",
    (
        Claim(
            "little-benefit",
            "Most of the adaptive algorithms gain little over FedAvg.",
            "The highest accuracy of each combination is at most one point above FedAvg's.",
            little_benefit(),
            required_share=0.75,
        ),
        Claim(
            "mfl-adam-start",
            "MFL with Adam has the fastest start of all.",
            "Its test accuracy, mean over the first fifth of the evaluations, exceeds that of each other combination.",
            mfl_adam_starts_fastest,
        ),
        Claim(
            "mimelite-sgdm",
            "Mimelite with SGDm starts slowly but ends above FedAvg.",
            "Its accuracy is below FedAvg's over the first fifth of the evaluations, and its highest accuracy is "
            "above.",
            mimelite_comes_late,
        ),
    ),
)
