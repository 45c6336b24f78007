"""Tasks, algorithms and cells, at the paper's scale and small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from driftless.papers.ghbm.hyper_parameters import (
    BATCH_SIZE,
    BETA,
    LR,
    METHODS,
    SERVER_LR,
    TAU,
    WEIGHT_DECAY,
    hyper_parameters,
)
from driftless.reproduce.experiment import Cell, Number

ALGORITHMS: dict[str, dict[str, Any]] = {
    "FedAvg": {"algorithm.name": "fedavg"},
    "FedProx": {"algorithm.name": "fedprox"},
    "SCAFFOLD": {"algorithm.name": "scaffold"},
    "FedDyn": {"algorithm.name": "feddyn"},
    "AdaBest": {"algorithm.name": "adabest"},
    "MIME": {"algorithm.name": "mime", "algorithm.beta": 0.0},
    "FedAvgM": {"algorithm.name": "fedavgm"},
    "SCAFFOLD-M": {"algorithm.name": "scaffold-momentum"},
    "FedCM": {"algorithm.name": "fedcm"},
    "FedADC": {"algorithm.name": "fedadc"},
    "MimeMom": {"algorithm.name": "mimemom"},
    "MimeLiteMom": {"algorithm.name": "mimelitemom"},
    "FedCM, all clients": {"algorithm.name": "fedcm", "run.cohort": 1.0},
    "GHBM": {"algorithm.name": "ghbm"},
    "LocalGHBM": {"algorithm.name": "localghbm"},
    "FedHBM": {"algorithm.name": "fedhbm"},
}


class Task(NamedTuple):
    settings: Mapping[str, Any]
    column: str
    """Of Table 7."""


def image_task(data: str, model: str, rounds: int, column: str) -> Task:
    return Task(
        {
            "data.name": data, "data.clients": 100, "model.name": model, "local.augment": "crop-flip",
            "local.epochs": 1, "local.batch_size": BATCH_SIZE[column], "local.weight_decay": WEIGHT_DECAY[column].best,
            "run.rounds": rounds, "run.cohort": 10, "run.evaluate_every": 10,
        },
        column,
    )  # fmt: skip


TASKS = {
    "CIFAR-10, ResNet-20": image_task("cifar10", "resnet-20", 10_000, "ResNet-20"),
    "CIFAR-10, CNN": image_task("cifar10", "lenet", 20_000, "CNN"),
    "CIFAR-100, ResNet-20": image_task("cifar100", "resnet-20", 10_000, "ResNet-20"),
    "CIFAR-100, CNN": image_task("cifar100", "lenet", 20_000, "CNN"),
    "Shakespeare": Task(
        {"data.name": "shakespeare", "model.name": "lstm-ghbm", "local.steps": 20, "local.batch_size": 100,
         "run.rounds": 250, "run.cohort": 10, "run.evaluate_every": 10},
        "Shakespeare",
    ),
    "StackOverflow": Task(
        {"data.name": "stackoverflow", "data.limit_users": 40_000, "data.test_examples": 10_000,
         "model.name": "lstm-stackoverflow", "local.epochs": 1, "local.batch_size": 16, "run.rounds": 1500,
         "run.cohort": 50, "run.evaluate_every": 10},
        "StackOverflow",
    ),
}  # fmt: skip
TWO_NETWORKS = ("CIFAR-10, CNN", "CIFAR-10, ResNet-20")
NON_IID, IID = "non-iid", "iid"
ALPHA = {NON_IID: 0.0, IID: 10_000.0}


def labels_of(task: str, alpha: float | str) -> dict[str, Any]:
    """alpha, or "non-iid" and "iid" for its two extremes; Shakespeare has its roles instead."""
    if task == "Shakespeare":
        return {"data.partition": "natural"} if alpha == NON_IID else {"data.partition": "iid", "data.clients": 100}
    value = ALPHA[alpha] if isinstance(alpha, str) else float(alpha)
    return {"data.partition": "prior-dirichlet", "data.alpha": value}


def paper_cell(
    task: str, alpha: float | str, name: str, published: Number | None = None, at: Mapping[str, Any] | None = None,
    **own: Any,
) -> Cell:  # fmt: skip
    """`own`: settings beyond Table 7, with _ for the dot: algorithm_tau=1."""
    fixed, open_ = hyper_parameters(name, TASKS[task].column)
    more = {key.replace("_", ".", 1): value for key, value in own.items()}
    settings = {**TASKS[task].settings, **labels_of(task, alpha), **fixed, **ALGORITHMS[name], **more}
    grid = {key: values for key, values in open_.items() if key not in more}
    return Cell(at or {"data": task, "labels": str(alpha), "algorithm": name}, settings, published, grid)


TAUS: tuple[int, ...] = METHODS["GHBM"][TAU]["CNN"].tried
SMALL_ROUNDS = 200
FASHION_MNIST = "Fashion-MNIST, MLP"
SMALL_TASKS: dict[str, dict[str, Any]] = {
    FASHION_MNIST: {"data.name": "fashion-mnist", "model.name": "mlp"},
    "Fashion-MNIST, logistic": {"data.name": "fashion-mnist", "model.name": "logistic"},
    "CIFAR-100, MLP": {"data.name": "cifar100", "model.name": "mlp"},
}
SMALL_COMMON: dict[str, Any] = {
    "data.clients": 100, "local.steps": 8, "local.batch_size": 64, "run.rounds": SMALL_ROUNDS, "run.cohort": 10,
    "run.evaluate_every": 5, "run.checkpoint_every": 0, "engine.kind": "block",
}  # fmt: skip
SMALL_RATES = (0.1, 0.03, 0.01)
SMALL_BEST = {"SCAFFOLD": 0.01, "FedDyn": 0.1, "AdaBest": 0.03, "MIME": 0.01, "MimeMom": 0.01, "MimeLiteMom": 0.01}
"""The best learning rate of each where it is not that of Table 7 for ResNet-20: found by our Table 7, at α = 0."""
SMALL_OPEN: dict[str, Any] = {SERVER_LR: 1.0, LR: 0.1, TAU: 10, BETA: 1.0}
"""For what is not bold in the column for ResNet-20; beta is FedHBM's."""
REDUCED = (
    "Fashion-MNIST and an MLP with two hidden layers stand in for CIFAR and its networks; 100 clients, 10 of them a "
    f"round and 8 local steps of 64 examples as in the paper, but {SMALL_ROUNDS} rounds instead of 10,000 or 20,000, "
    "no augmentation and no weight decay; one seed. Hyper-parameters are those of Table 7 for ResNet-20, where none is "
    "marked server learning rate 1, τ = 10 and FedHBM's β = 1; the learning rate was searched in 0.1, 0.03, 0.01 at "
    "α = 0 for each method (FedCM: 1, 0.5, 0.1). Quality is the mean over the last 50 rounds."
)


def small_cell(
    alpha: float | str, name: str, task: str = FASHION_MNIST, at: Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None, **own: Any,
) -> Cell:  # fmt: skip
    fixed, open_ = hyper_parameters(name, "ResNet-20")
    more = {key.replace("_", ".", 1): value for key, value in own.items()}
    rate = {LR: SMALL_BEST[name]} if name in SMALL_BEST else {}
    chosen = {**fixed, **{key: SMALL_OPEN[key] for key in open_}, **rate, **ALGORITHMS[name], **more}
    settings = {**SMALL_COMMON, **SMALL_TASKS[task], **labels_of(task, alpha), **chosen}
    return Cell(at or {"data": task, "labels": str(alpha), "algorithm": name}, settings, None, grid or {})
