"""Tasks, algorithms and cells, at the paper's scale and small."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from driftless.reproduce.experiment import Cell, Number, Setup

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
FEDCM_ALL_CLIENTS = "FedCM, all clients"
WEIGHTED_GRADIENT = ("FedCM", FEDCM_ALL_CLIENTS, "SCAFFOLD-M")
"""Methods that give the new gradient a weight below 1, here 0.1: their learning rates are larger."""


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
        {"data.name": "shakespeare", "data.limit_users": 100, "data.min_examples_per_user": 2000,
         "data.max_examples_per_user": 2000,
         "model.name": "lstm-ghbm", "local.epochs": 1, "local.batch_size": 100, "run.rounds": 250, "run.cohort": 10,
         "run.evaluate_every": 10},
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
FASHION_MNIST, FASHION_MNIST_CNN = SMALL_NETWORKS = ("Fashion-MNIST, MLP", "Fashion-MNIST, CNN")
SMALL_TASKS: dict[str, dict[str, Any]] = {
    FASHION_MNIST: {"data.name": "fashion-mnist", "model.name": "mlp"},
    FASHION_MNIST_CNN: {"data.name": "fashion-mnist", "model.name": "cnn"},
    "CIFAR-10, small CNN": {"data.name": "cifar10", "model.name": "cnn"},
    "CIFAR-100, small CNN": {"data.name": "cifar100", "model.name": "cnn"},
}
CIFAR_ROUNDS = 600
SMALL_COMMON: dict[str, Any] = {
    "data.clients": 120, "data.validation": 20, "local.steps": 8, "local.batch_size": 64, "run.rounds": SMALL_ROUNDS,
    "run.cohort": 10, "run.evaluate_every": 5, "run.checkpoint_every": 0, "engine.kind": "block",
}  # fmt: skip
SMALL_RATES = (0.3, 0.1, 0.03, 0.01)
FEDCM_RATES: tuple[float, ...] = METHODS["FedCM"][LR]["CNN"].tried
"""Of methods that give the new gradient the weight 0.1."""
SMALL_SERVER_LR = {"MimeMom": 1.0, "MimeLiteMom": 1.0}
"""Instead of 0.1, with which 200 rounds go as far as 20. FedAvgM's 0.1 stays: its momentum multiplies it by 10."""
SMALL_OPEN: dict[str, Any] = {SERVER_LR: 1.0, TAU: 10, BETA: 1.0}
"""For what is not bold in the column for ResNet-20; beta is FedHBM's."""
REDUCED = (
    "Fashion-MNIST and an MLP with two hidden layers stand in for CIFAR and its networks; 100 clients of 500 examples, "
    f"10 of them a round and 8 local steps of 64 examples as in the paper, but {SMALL_ROUNDS} rounds instead of 10,000 "
    "or 20,000, no augmentation and no weight decay. For each method and each setting the learning rate is chosen "
    "among 0.3, 0.1, 0.03, 0.01 (FedCM and SCAFFOLD-M: 1, 0.5, 0.1) with one seed, by the accuracy on 20 more clients "
    "that never train. Other hyper-parameters are those of Table 7 for ResNet-20; server learning rate 1, τ = 10 and "
    "FedHBM's β = 1 where none is marked, and server learning rate 1 for the MIME methods, which would hardly move "
    "with 0.1 in so few rounds. Quality is the mean over the last 50 rounds."
)


TWO_NETWORKS_REDUCED = REDUCED + " A CNN of 3x3 convolutions of 16 and 32 is the second network."
CIFAR_REDUCED = (
    "{} at α = 0 with a CNN of 3x3 convolutions of 16 and 32, "
    f"{CIFAR_ROUNDS} rounds of 8 local steps with 32 examples; the learning rate of each method is chosen among 0.1 "
    "and 0.03 (FedCM and SCAFFOLD-M: 1 and 0.5) by the accuracy on a tenth of each client's examples, which are never "
    "trained on."
)


def small_setup(cells: Iterable[Cell], reduced: str = REDUCED, most_seeds: int = 6) -> Setup:
    return Setup(tuple(cells), seeds=3, most_seeds=most_seeds, grid_seeds=1, reduced=reduced)


def small_cell(
    alpha: float | str, name: str, task: str = FASHION_MNIST, at: Mapping[str, Any] | None = None,
    rates: Sequence[float] | None = None, **own: Any,
) -> Cell:  # fmt: skip
    """`rates`: learning rates to choose from, by default those of the method."""
    fixed, open_ = hyper_parameters(name, "ResNet-20")
    more = {key.replace("_", ".", 1): value for key, value in own.items()}
    chosen = {**fixed, **{key: SMALL_OPEN[key] for key in open_ if key != LR}, **ALGORITHMS[name]}
    if name in SMALL_SERVER_LR:
        chosen[SERVER_LR] = SMALL_SERVER_LR[name]
    chosen.pop(LR, None)
    settings = {**SMALL_COMMON, **SMALL_TASKS[task], **labels_of(task, alpha), **chosen, **more}
    grid = {LR: tuple(rates or (FEDCM_RATES if name in WEIGHTED_GRADIENT else SMALL_RATES))}
    return Cell(at or {"data": task, "labels": str(alpha), "algorithm": name}, settings, None, grid)


def cifar_cell(task: str, name: str) -> Cell:
    """Held out is a part of each client, not whole clients: of 100 classes many would have no client left."""
    rates = (1.0, 0.5) if name in WEIGHTED_GRADIENT else (0.1, 0.03)
    return small_cell(
        NON_IID, name, task, rates=rates, data_clients=100, data_validation=0, data_client_test=0.1,
        local_batch_size=32, run_rounds=CIFAR_ROUNDS, run_evaluate_every=20, engine_kind="single",
    )  # fmt: skip
