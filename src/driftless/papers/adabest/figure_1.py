"""Figure 1: FedDyn becomes unstable when clients return seldom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from driftless.papers.adabest.settings import CIFAR100_LIGHT_CNN, CIFAR100_MLP, TASKS
from driftless.papers.adabest.stability import (
    STUDIED,
    accuracy_falls,
    for_each_model,
    norm_growth,
    quarter_growth,
    stability_cells,
    stability_figure,
)
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Setup
from driftless.reproduce.outcome import LAST_ACCURACY, Outcome, above, below


def adabest_ends_ahead(outcome: Outcome) -> Iterable[Check]:
    for name in ("FedDyn", "SCAFFOLD"):
        best, other = outcome.one(algorithm="AdaBest"), outcome.one(algorithm=name)
        yield above(f"AdaBest over {name} at the end", 100 * best.last().mean, 100 * other.last().mean, unit=" %")


def scaffold_grows_less(outcome: Outcome) -> Iterable[Check]:
    grown = {name: quarter_growth(outcome, name) for name in STUDIED}
    yield below("growth of the norm, SCAFFOLD against FedDyn", grown["SCAFFOLD"], grown["FedDyn"])


def with_model(model: str, cells: Iterable[Cell]) -> tuple[Cell, ...]:
    return tuple(replace(cell, at={"model": model, **cell.at}) for cell in cells)


FIGURE_1 = Experiment(
    name="figure-1",
    title="FedDyn becomes unstable when clients return seldom",
    where="Figure 1, section 3.5, D.3",
    about="CIFAR-100 in 1,100 parts with α = 0.3, 1,000 of them clients, 5 a round: test loss, norm of the cloud "
    "model and test accuracy over the rounds.",
    paper=Setup(with_model("CNN", stability_cells(TASKS["CIFAR100"], 1000, "α=0.3", 3000, STUDIED)), seeds=5),
    small=Setup(
        (
            *with_model("MLP", stability_cells(CIFAR100_MLP, 1000, "α=0.3", 3000, STUDIED, held_out=112)),
            *with_model("light CNN", stability_cells(CIFAR100_LIGHT_CNN, 1000, "α=0.3", 1000, STUDIED, held_out=112)),
        ),
        reduced="The MLP of EMNIST-L for 3,000 rounds and a light CNN (16 and 32 channels, 64 hidden units) for "
        "1,000; 1,112 parts instead of 1,100, so that a client's data are one batch; one seed.",
    ),
    measure=LAST_ACCURACY,
    claims=(
        Claim(
            "norm-explodes",
            "The norm of FedDyn's cloud model keeps growing while AdaBest's stays bounded.",
            "From the first quarter of the rounds to the end the norm more than doubles for FedDyn, and does not for "
            "AdaBest.",
            for_each_model(norm_growth),
        ),
        Claim(
            "accuracy-falls",
            "FedDyn's accuracy falls again; AdaBest's does not.",
            "The mean of the last tenth of the evaluations is more than 2 points below the best for FedDyn, less for "
            "AdaBest.",
            for_each_model(accuracy_falls),
        ),
        Claim(
            "ahead",
            "AdaBest ends more accurate than FedDyn and SCAFFOLD.",
            "AdaBest's accuracy over the last tenth of the evaluations exceeds each of theirs.",
            for_each_model(adabest_ends_ahead),
        ),
        Claim(
            "scaffold-milder",
            "SCAFFOLD fails in the same way, but less severely than FedDyn.",
            "Its norm grows by a smaller factor from the first quarter to the end than FedDyn's.",
            for_each_model(scaffold_grows_less),
        ),
    ),
    figure=stability_figure,
)
