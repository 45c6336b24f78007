"""The tasks, algorithms and hyper-parameters of sections 4.1 and B, at the paper's scale and small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from driftless.reproduce.experiment import Cell, Place
from driftless.reproduce.published import published

ALGORITHMS = {
    "FedGBO": "fedgbo", "Mimelite": "mimelite", "MFL": "mfl", "AdaptiveFedOpt": "adaptive-fedopt", "FedAvg": "fedavg",
}  # fmt: skip
ADAPTIVE = ("FedGBO", "Mimelite", "MFL", "AdaptiveFedOpt")
LOCALLY_ADAPTIVE = ("FedGBO", "Mimelite", "MFL")
"""Adaptive on the clients."""
OPTIMISERS = {"RMSProp": "rmsprop", "SGDm": "sgdm", "Adam": "adam"}
TASKS = ("CIFAR100", "Sent140", "FEMNIST", "Shakespeare")
STEPS: tuple[int, ...] = (10, 50)
"""K."""
ROUNDS, EVERY, TRIALS = 5000, 50, 5


TABLE_3 = published(__file__, "table_3")
TABLE_8 = published(__file__, "table_8")
BETA_2, EPSILON = 0.99, 1e-3
"""Not searched."""
Choice = tuple[float, ...]
"""(lr, beta); AdaptiveFedOpt (server lr, beta, client lr); FedAvg (lr,)."""


def table_8_choice(task: str, steps: int, optimiser: str, name: str) -> Choice:
    row = TABLE_8[task][str(steps)][name]
    return tuple(row if name == "FedAvg" else row[TABLE_8["optimisers"].index(optimiser)])


def algorithm_settings(name: str, optimiser: str, chosen: Choice) -> dict[str, Any]:
    """The settings of an algorithm with values in the order of Table 8."""
    if name == "FedAvg":
        return {"algorithm.name": "fedavg", "local.lr": chosen[0]}
    settings = {"algorithm.name": ALGORITHMS[name], "algorithm.optimizer": OPTIMISERS[optimiser],
                "algorithm.beta": chosen[1], "algorithm.beta2": BETA_2, "algorithm.eps": EPSILON}  # fmt: skip
    if name == "AdaptiveFedOpt":
        return {**settings, "algorithm.server_lr": chosen[0], "local.lr": chosen[2]}
    return {**settings, "local.lr": chosen[0]}


@dataclass(frozen=True)
class Task:
    settings: Mapping[str, Any]
    rounds: Mapping[int, int]
    """By K."""
    every: Mapping[int, int]
    cohort: int
    batch: int
    rates: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Learning rates that are searched, by optimiser ("SGD": FedAvg's); none: those of Table 8 are taken."""
    server_rates: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The same for AdaptiveFedOpt, whose clients keep Table 8's."""
    optimisers: tuple[str, ...] = tuple(OPTIMISERS)

    def grid(self, name: str, optimiser: str) -> dict[str, tuple[float, ...]]:
        if name == "AdaptiveFedOpt":
            return {"algorithm.server_lr": self.server_rates[optimiser]} if self.server_rates else {}
        return {"local.lr": self.rates["SGD" if name == "FedAvg" else optimiser]} if self.rates else {}


def as_published(settings: Mapping[str, Any], task: str) -> Task:
    rounds: dict[int, int] = dict.fromkeys(STEPS, ROUNDS)
    every: dict[int, int] = dict.fromkeys(STEPS, EVERY)
    return Task(settings, rounds, every, TABLE_3[task]["cohort"], TABLE_3[task]["batch_size"])


PAPER_TASKS = {
    "CIFAR100": as_published(
        {"data.name": "cifar100", "data.clients": TABLE_3["CIFAR100"]["clients"], "data.partition": "pachinko",
         "local.augment": "crop-flip", "model.name": "cnn-fedgbo-cifar"},
        "CIFAR100",
    ),
    "Sent140": as_published(
        {"data.name": "sent140", "data.source": "leaf", "data.min_tweets": 10, "data.words": 5000,
         "model.name": "logistic"},
        "Sent140",
    ),
    "FEMNIST": as_published(
        {"data.name": "femnist", "data.source": "leaf", "model.name": "cnn-fedgbo-femnist"}, "FEMNIST"
    ),
    "Shakespeare": as_published(
        {"data.name": "shakespeare", "data.source": "leaf", "model.name": "gru-fedgbo"}, "Shakespeare"
    ),
}  # fmt: skip
BLOCK = {"engine.kind": "block"}
SINGLE = {"engine.kind": "single"}
SMALL_TASKS = {
    "CIFAR100": Task(
        {"data.name": "cifar100", "data.clients": 500, "data.partition": "pachinko", "data.crop": 16,
         "local.augment": "crop-flip", "model.name": "cnn", **SINGLE},
        {10: 80}, {10: 16}, 5, 16,
        {"SGD": (0.1, 1.0), "SGDm": (0.1, 1.0), "Adam": (0.01, 0.1, 1.0)},
        {"SGDm": (1.0, 10.0), "Adam": (1.0, 10.0)},
        optimisers=("SGDm", "Adam"),
    ),
    "Sent140": Task(
        {"data.name": "sent140", "data.source": "users", "data.min_tweets": 5, "model.name": "logistic", **BLOCK},
        {10: 150, 50: 40}, {10: 5, 50: 2}, 22, 8,
        {"SGD": (1.0, 10.0), "RMSProp": (0.1, 1.0), "SGDm": (1.0, 10.0), "Adam": (0.1, 1.0, 10.0)},
        {"RMSProp": (0.1, 1.0), "SGDm": (1.0, 10.0), "Adam": (1.0, 10.0)},
    ),
    "FEMNIST": Task(
        {"data.name": "fashion-mnist", "data.clients": 300, "data.partition": "dirichlet", "data.alpha": 0.3,
         "model.name": "mlp", **BLOCK},
        {10: 80, 50: 20}, {10: 4, 50: 1}, 10, 32,
        {"SGD": (0.01, 0.1), "RMSProp": (0.01, 0.1), "SGDm": (0.1, 1.0), "Adam": (0.01, 0.1, 1.0)},
        {"RMSProp": (0.1, 1.0), "SGDm": (1.0, 10.0), "Adam": (0.1, 1.0)},
    ),
    "Shakespeare": Task(
        {"data.name": "shakespeare", "data.source": "roles", "data.length": 20, "data.stride": 50,
         "model.name": "gru-fedgbo", **SINGLE},
        {10: 50}, {10: 10}, 7, 16, optimisers=("SGDm",),
    ),
}  # fmt: skip


def task_cell(task: Task, of: str, steps: int, optimiser: str, name: str, at: Mapping[str, Place]) -> Cell:
    settings = {
        **task.settings, **algorithm_settings(name, optimiser, table_8_choice(of, steps, optimiser, name)),
        "local.steps": steps, "local.batch_size": task.batch, "local.last_batch": "bootstrap",
        "server.weighting": "uniform", "run.rounds": task.rounds[steps], "run.cohort": task.cohort,
        "run.evaluate_every": task.every[steps],
    }  # fmt: skip
    grid = task.grid(name, optimiser)
    return Cell(at, {key: value for key, value in settings.items() if key not in grid}, grid=grid)


def row_cells(tasks: Mapping[str, Task], of: str, steps: int, **at: Place) -> tuple[Cell, ...]:
    """A row of Figure 1 or 2; FedAvg, which has no optimiser, is drawn in each of its graphs."""
    return tuple(
        task_cell(tasks[of], of, steps, optimiser, name, {**at, "optimiser": optimiser, "algorithm": name})
        for optimiser in tasks[of].optimisers
        for name in ALGORITHMS
    )


def all_cells(tasks: Mapping[str, Task], some: Sequence[int] = STEPS) -> tuple[Cell, ...]:
    return tuple(
        one for task, steps in product(TASKS, some) if steps in tasks[task].rounds
        for one in row_cells(tasks, task, steps, data=task, K=steps)
    )  # fmt: skip
