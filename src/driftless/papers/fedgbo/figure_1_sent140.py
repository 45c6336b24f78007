"""Figure 1: Sent140 with 10 local steps."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.fedgbo.measures import mean_accuracy, mean_change, pairs
from driftless.papers.fedgbo.rows import figure_row, little_benefit
from driftless.papers.fedgbo.settings import ADAPTIVE
from driftless.reproduce.experiment import Check, Claim
from driftless.reproduce.outcome import Outcome, above, below


def sparse_wants_adaptive(outcome: Outcome) -> Iterable[Check]:
    for name in ADAPTIVE:
        for text, one, sgdm in pairs(outcome, [name], ("RMSProp", "Adam"), (name, "SGDm")):
            yield above(f"mean accuracy, {text}", mean_accuracy(one), mean_accuracy(sgdm), unit=" %")


def sgdm_jumps(outcome: Outcome) -> Iterable[Check]:
    for name in ADAPTIVE:
        for text, one, sgdm in pairs(outcome, [name], ("RMSProp", "Adam"), (name, "SGDm")):
            yield below(f"change between evaluations, {text}", mean_change(one), mean_change(sgdm), unit=" points")


FIGURE_1_SENT140 = figure_row(
    1,
    "Sent140",
    (
        Claim(
            "adaptive-rates",
            "On Sent140, whose gradients are sparse, RMSProp and Adam converge faster than SGDm.",
            "For each algorithm and each of the two: the test accuracy, mean over the run, exceeds that with SGDm.",
            sparse_wants_adaptive,
            required_share=0.75,
        ),
        Claim(
            "sgdm-no-gain",
            "SGDm improves little or nothing over FedAvg.",
            "The highest accuracy of each algorithm with SGDm is at most one point above FedAvg's.",
            little_benefit("SGDm"),
            required_share=0.75,
        ),
        Claim(
            "sgdm-noisy",
            "With SGDm, whose learning rate has to be very large, the accuracy is very noisy.",
            "For each algorithm, the mean change of the accuracy between evaluations, in the second half of the run, "
            "is smaller with RMSProp and with Adam than with SGDm.",
            sgdm_jumps,
            required_share=0.75,
        ),
    ),
)
