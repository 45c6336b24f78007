"""What the studies share: federations of handwritten digits, algorithms, and the settings each is chosen from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driftless.reproduce.experiment import Cell, Place, Setup

Grid = Mapping[str, Sequence[float]]
SIX_RATES: Grid = {"local.lr": (0.03, 0.05, 0.1, 0.2, 0.3, 0.5)}
RATES = (0.03, 0.1, 0.3)
METHODS: dict[str, tuple[str, Grid]] = {
    "FedAvg": ("fedavg", SIX_RATES),
    "FedProx": ("fedprox", {"local.lr": RATES, "algorithm.mu": (0.01, 0.1)}),
    "FedAvgM": ("fedavgm", {"local.lr": RATES, "algorithm.momentum": (0.5, 0.9)}),
    "FedAdam": ("fedadam", {"local.lr": RATES, "algorithm.server_lr": (0.01, 0.03)}),
    "FedCM": ("fedcm", {"local.lr": (0.1, 0.3, 1.0), "algorithm.alpha": (0.1, 0.3)}),
    "MimeLite": ("mimelite", {"local.lr": RATES, "algorithm.beta": (0.5, 0.9)}),
    "GHBM": ("ghbm", {"local.lr": RATES, "algorithm.tau": (3, 10)}),
    "SCAFFOLD": ("scaffold", SIX_RATES),
    "FedDyn": ("feddyn", {"local.lr": RATES, "algorithm.mu": (0.02, 0.1)}),
    "AdaBest": ("adabest", {"local.lr": RATES, "algorithm.beta": (0.6, 0.96)}),
    "FedHBM": ("fedhbm", {"local.lr": RATES, "algorithm.beta": (0.5, 1.0)}),
    "SCAFFOLD-slim": ("scaffold-slim", SIX_RATES),
}
"""Name in the tables -> name in commands, and six points to choose from: the same for everyone. FedGBO with momentum
is FedCM (a test asserts it) and is not run twice."""
WITH_STATE = ("SCAFFOLD", "FedDyn", "AdaBest", "FedHBM")
STATELESS = ("FedAvg", "FedProx", "FedAvgM", "FedAdam", "FedCM", "MimeLite", "GHBM")
COMPARED = (*STATELESS, *WITH_STATE)
SEEDS = 8

TRAINING: dict[str, Any] = {
    "data.name": "digits", "model.name": "mlp", "local.epochs": 5, "local.batch_size": 10, "run.evaluate_every": 1,
    "run.checkpoint_every": 0, "engine.kind": "block",
}  # fmt: skip
HUNDRED: dict[str, Any] = {
    **TRAINING, "data.clients": 120, "data.validation": 20, "run.cohort": 10, "run.rounds": 40,
}  # fmt: skip
"""100 clients of 12 examples, 10 of them a round; 20 more are held out."""
MANY: dict[str, Any] = {
    **TRAINING, "data.clients": 400, "data.validation": 50, "data.partition": "dirichlet", "data.alpha": 0.3,
}  # fmt: skip
"""350 clients of 3 or 4 examples; 50 more are held out."""
LABELS: dict[str, dict[str, Any]] = {
    "α=0.05": {"data.partition": "dirichlet", "data.alpha": 0.05},
    "α=0.5": {"data.partition": "dirichlet", "data.alpha": 0.5},
    "IID": {"data.partition": "iid"},
}
SELDOM, OFTEN = "4 of 350", "40 of 350"
COHORTS: dict[str, dict[str, Any]] = {
    SELDOM: {"run.cohort": 4, "run.rounds": 100},
    OFTEN: {"run.cohort": 40, "run.rounds": 40},
}
CHOSEN = (
    "Handwritten digits and an MLP with two hidden layers, five local epochs with batches of 10. Every algorithm is "
    "chosen from six points (learning rates, or three learning rates and two values of its main hyper-parameter) by "
    "the accuracy on held-out clients with the first seed; then it runs with eight seeds."
)


def cell(name: str, at: Mapping[str, Place], settings: Mapping[str, Any], grid: Grid | None = None) -> Cell:
    algorithm, own_grid = METHODS[name]
    return Cell({**at, "algorithm": name}, {**settings, "algorithm.name": algorithm}, grid=grid or own_grid)


def label_cells(names: Sequence[str], labels: Sequence[str]) -> tuple[Cell, ...]:
    return tuple(cell(name, {"labels": one}, {**HUNDRED, **LABELS[one]}) for one in labels for name in names)


def cohort_cells(names: Sequence[str], cohorts: Sequence[str], place: str = "cohort") -> tuple[Cell, ...]:
    return tuple(cell(name, {place: one}, {**MANY, **COHORTS[one]}) for one in cohorts for name in names)


def setup(cells: tuple[Cell, ...]) -> Setup:
    return Setup(cells, seeds=SEEDS, grid_seeds=1)
