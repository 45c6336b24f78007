"""Figure 1: Sent140 with 10 local steps."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.fedgbo.measures import faster, mean_change, pairs
from driftless.papers.fedgbo.rows import figure_row, little_benefit
from driftless.papers.fedgbo.settings import ADAPTIVE
from driftless.reproduce.checks import Check, below
from driftless.reproduce.experiment import Claim
from driftless.reproduce.outcome import Outcome


def sparse_wants_adaptive(outcome: Outcome) -> Iterable[Check]:
    for name in ADAPTIVE:
        for pair in pairs(outcome, [name], ("RMSProp", "Adam"), (name, "SGDm")):
            yield faster(*pair)


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
            "On average over the algorithms and the two, the test accuracy, mean over the run, exceeds that with SGDm.",
            sparse_wants_adaptive,
            decided_by="average",
            paper="“the fastest convergence” is theirs, drawn",
        ),
        Claim(
            "sgdm-no-gain",
            "SGDm improves little or nothing over FedAvg.",
            "The highest accuracy of each algorithm with SGDm is less than one point above FedAvg's.",
            little_benefit("SGDm"),
            paper="“little/no improvement”, drawn",
        ),
        Claim(
            "sgdm-noisy",
            "With SGDm, whose learning rate has to be very large, the accuracy is very noisy.",
            "On average over the algorithms, the mean change of the accuracy between evaluations (every 50 rounds), in "
            "the second half of the run, is smaller with RMSProp and with Adam than with SGDm.",
            sgdm_jumps,
            decided_by="average",
            paper="“very noisy convergence” with η = 10, drawn",
        ),
    ),
)
