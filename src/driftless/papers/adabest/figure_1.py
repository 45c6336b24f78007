"""Figure 1: FedDyn becomes unstable when clients return seldom."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.adabest.settings import CIFAR100_LIGHT_CNN, TASKS
from driftless.papers.adabest.stability import (
    accuracy_falls,
    growth,
    norm_growth,
    stability_cells,
    stability_figure,
    stability_settings,
)
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.outcome import LAST_ACCURACY, Outcome

BETA = 0.8
ROUNDS = 3000


def adabest_ends_ahead(outcome: Outcome) -> Iterable[Check]:
    best = outcome.measured(outcome.one(algorithm="AdaBest"))
    for name in ("FedDyn", "SCAFFOLD"):
        yield above(f"AdaBest against {name}", best, outcome.measured(outcome.one(algorithm=name)), unit=" %")


def scaffold_grows_less(outcome: Outcome) -> Iterable[Check]:
    grown = {name: growth(outcome.one(algorithm=name)) for name in ("SCAFFOLD", "FedDyn")}
    yield below("growth of the norm, SCAFFOLD against FedDyn", grown["SCAFFOLD"], grown["FedDyn"], unit="-fold")


FIGURE_1 = Experiment(
    name="figure-1",
    title="FedDyn becomes unstable when clients return seldom",
    where="Figure 1, section 3.5, D.3",
    about="CIFAR-100 in 1,100 parts with α = 0.3, 1,000 of them clients, 5 a round: test loss, norm of the cloud "
    "model and test accuracy over the rounds.",
    paper=Setup(stability_cells(stability_settings(TASKS["CIFAR100"], 1000, "α=0.3", ROUNDS, 100), BETA), seeds=5),
    small=Setup(
        stability_cells(stability_settings(CIFAR100_LIGHT_CNN, 1000, "α=0.3", ROUNDS, 112), BETA),
        seeds=3,
        reduced="A light CNN (16 and 32 channels, 64 hidden units); 1,112 parts instead of 1,100, so that a client's "
        "data are one batch.",
    ),
    measure=LAST_ACCURACY,
    claims=(
        Claim(
            "norm-explodes",
            "The norm of FedDyn's cloud model keeps growing while AdaBest's stays bounded.",
            "From the first quarter of the rounds to the end the norm more than doubles for FedDyn, and does not for "
            "AdaBest.",
            norm_growth,
            paper="FedDyn's norm grows without bound, AdaBest's levels off (drawn)",
        ),
        Claim(
            "accuracy-falls",
            "FedDyn's accuracy falls again; AdaBest's does not.",
            "The mean of the last tenth of the evaluations is more than 2 points below the best tenth for FedDyn, less "
            "for AdaBest.",
            accuracy_falls,
            paper="FedDyn's accuracy collapses, AdaBest's does not (drawn)",
        ),
        Claim(
            "ahead",
            "AdaBest ends more accurate than FedDyn and SCAFFOLD.",
            "AdaBest's accuracy over the last tenth of the evaluations exceeds each of theirs.",
            adabest_ends_ahead,
            paper="AdaBest ends above both (drawn)",
        ),
        Claim(
            "scaffold-milder",
            "SCAFFOLD fails in the same way, but less severely than FedDyn.",
            "Its norm grows by a smaller factor from the first quarter to the end than FedDyn's.",
            scaffold_grows_less,
            paper='"less severe than that of FedDyn" (section 3.5)',
        ),
    ),
    figure=stability_figure,
)
