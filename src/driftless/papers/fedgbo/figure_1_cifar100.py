"""Figure 1, first row: CIFAR-100 with 10 local steps."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.fedgbo.measures import mean_accuracy, pairs
from driftless.papers.fedgbo.rows import fastest, figure_row
from driftless.papers.fedgbo.settings import ADAPTIVE
from driftless.reproduce.experiment import Check, Claim
from driftless.reproduce.outcome import Outcome, above, below


def faster_than_fedavg(outcome: Outcome) -> Iterable[Check]:
    fedavg = mean_accuracy(outcome.pick(algorithm="FedAvg")[0])
    for name in ADAPTIVE:
        score, optimiser = max(
            (mean_accuracy(one), str(one.cell.at["optimiser"])) for one in outcome.pick(algorithm=name)
        )
        yield above(f"mean accuracy, {name} {optimiser} against 1.1 x FedAvg", score, 1.1 * fedavg, unit=" %")


def mfl_is_slower(outcome: Outcome) -> Iterable[Check]:
    for text, mfl, fedgbo in pairs(outcome, ["MFL"], ["SGDm"], ("FedGBO", "SGDm")):
        yield below(f"mean accuracy, 1.1 x {text}", 1.1 * mean_accuracy(mfl), mean_accuracy(fedgbo), unit=" %")


def fedopt_over_mimelite(outcome: Outcome) -> Iterable[Check]:
    for text, fedopt, mimelite in pairs(outcome, ["AdaptiveFedOpt"], ["Adam"], ("Mimelite", "Adam")):
        yield above(f"mean accuracy, {text}", mean_accuracy(fedopt), mean_accuracy(mimelite), unit=" %")


FIGURE_1_CIFAR100 = figure_row(
    1,
    "CIFAR100",
    (
        Claim(
            "fedgbo-sgdm-fastest",
            "On CIFAR-100 FedGBO with SGDm converges fastest of all combinations.",
            "Its test accuracy, mean over the run, exceeds that of each other combination and of FedAvg.",
            fastest("FedGBO", "SGDm"),
        ),
        Claim(
            "speed-up",
            "On this harder task the adaptive algorithms are significantly faster than FedAvg.",
            "With its fastest optimiser, each algorithm's test accuracy, mean over the run, is more than 1.1 times "
            "FedAvg's.",
            faster_than_fedavg,
            required_share=0.75,
        ),
        Claim(
            "mfl-slower",
            "With SGDm, MFL converges significantly more slowly than FedGBO.",
            "1.1 times the test accuracy of MFL, mean over the run, is below FedGBO's.",
            mfl_is_slower,
        ),
        Claim(
            "fedopt-adam",
            "With Adam, AdaptiveFedOpt converges faster than Mimelite.",
            "Its test accuracy, mean over the run, is higher.",
            fedopt_over_mimelite,
        ),
    ),
)
