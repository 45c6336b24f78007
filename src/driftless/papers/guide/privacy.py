"""Differential privacy of clients: which algorithms bear clipping and noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftless.papers.guide.measures import QUALITY, SELECTION, better_than_fedavg
from driftless.papers.guide.settings import Grid, cell, setup
from driftless.reproduce.experiment import Cell, Experiment
from driftless.reproduce.figure import curves

EPSILON = 8.0
PRIVATE: dict[str, Any] = {
    "data.name": "digits", "data.clients": 120, "data.validation": 20, "data.partition": "dirichlet",
    "data.alpha": 0.5, "model.name": "logistic", "local.steps": 10, "local.batch_size": 10, "run.rounds": 50,
    "run.cohort": "poisson:0.2", "run.evaluate_every": 1, "run.checkpoint_every": 0, "engine.kind": "block",
    "server.weighting": "uniform", "privacy.target_epsilon": EPSILON,
}  # fmt: skip
GRID: Grid = {"local.lr": (0.03, 0.1, 0.3), "privacy.clip": (0.2, 0.5)}
WEIGHTED_GRADIENT: Grid = {"local.lr": (0.3, 1.0, 3.0), "privacy.clip": (0.2, 0.5)}
"""Of FedCM, which gives the new gradient the weight 0.1."""
OWN: Mapping[str, Mapping[str, Any]] = {
    "FedAvg": {},
    "FedAvgM": {"algorithm.server_lr": 0.3},
    "FedAdam": {"algorithm.server_lr": 0.03},
    "FedCM": {},
    "AdaBest": {},
    "SCAFFOLD": {},
}
AT = "ε = 8"


def cells() -> tuple[Cell, ...]:
    return tuple(
        cell(name, {"privacy": AT}, {**PRIVATE, **own}, WEIGHTED_GRADIENT if name == "FedCM" else GRID)
        for name, own in OWN.items()
    )


SETUP = setup(cells())
PRIVACY = Experiment(
    name="privacy",
    title="Differential privacy",
    where="Study 6",
    about="Handwritten digits and logistic regression, 100 clients of 12 examples, labels by a Dirichlet distribution "
    "with α = 0.5, each client in a round with probability 0.2, 50 rounds of ten local steps with ten examples, ε = 8. "
    "Every algorithm is chosen from three learning rates and two clipping norms by the accuracy on held-out clients "
    "with the first seed; then it runs with eight seeds. The server learning rate is 0.3 for FedAvgM and 0.03 for "
    "FedAdam.",
    paper=SETUP,
    small=SETUP,
    measure=QUALITY,
    selection=SELECTION,
    figure=lambda outcome: curves(outcome, "test_accuracy"),
    ours=True,
    claims=tuple(
        better_than_fedavg(name, "With differential privacy at ε = 8", {"privacy": AT})
        for name in OWN
        if name != "FedAvg"
    ),
)
