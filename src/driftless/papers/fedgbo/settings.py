"""The tasks, algorithms and hyper-parameters of sections 4.1 and B, at the paper's scale and small."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    every: int
    cohort: int
    batch: int
    searched: int = 0
    """So many learning rates are compared, from Table 8's upwards; 0: Table 8's is taken."""
    largest_beta: float = 1.0
    optimisers: tuple[str, ...] = tuple(OPTIMISERS)

    def choice(self, of: str, steps: int, optimiser: str, name: str) -> Choice:
        """Of Table 8, with no larger β than makes sense for these rounds."""
        rate, *rest = table_8_choice(of, steps, optimiser, name)
        return (rate, min(rest[0], self.largest_beta), *rest[1:]) if rest else (rate,)

    def grid(self, name: str, rate: float) -> dict[str, tuple[float, ...]]:
        """In AdaptiveFedOpt the server's learning rate is searched, and the clients keep Table 8's."""
        key = "algorithm.server_lr" if name == "AdaptiveFedOpt" else "local.lr"
        return {key: rates_from(rate, self.searched)} if self.searched else {}


def rates_from(rate: float, number: int) -> tuple[float, ...]:
    """Powers of ten from this one upwards; from a lower one where they would exceed the authors' largest, 10."""
    last = min(round(math.log10(rate)) + number - 1, 1)
    return tuple(10.0**exponent for exponent in range(last - number + 1, last + 1))


def as_published(settings: Mapping[str, Any], task: str) -> Task:
    return Task(settings, dict.fromkeys(STEPS, ROUNDS), EVERY, TABLE_3[task]["cohort"], TABLE_3[task]["batch_size"])


PAPER_TASKS = {
    "CIFAR100": as_published(
        {"data.name": "cifar100", "data.clients": TABLE_3["CIFAR100"]["clients"], "data.partition": "pachinko",
         "local.augment": "crop-flip", "model.name": "cnn-fedgbo-cifar"},
        "CIFAR100",
    ),
    "Sent140": as_published(
        {"data.name": "sent140", "data.source": "leaf", "data.split": "random", "data.min_tweets": 10,
         "data.words": 5000, "model.name": "logistic"},
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
        {"data.name": "cifar100", "data.clients": 500, "data.partition": "pachinko", "local.augment": "crop-flip",
         "model.name": "cnn-fedgbo-cifar", **SINGLE},
        {10: 400}, 20, 5, 32, optimisers=("SGDm",),
    ),
    "Sent140": Task(
        {"data.name": "sent140", "data.source": "users", "data.split": "random", "data.min_tweets": 5,
         "data.words": 5000, "data.validation": 0.2, "model.name": "logistic", **BLOCK},
        {10: 1000, 50: 1000}, EVERY, 22, 8, searched=2,
    ),
    "FEMNIST": Task(
        {"data.name": "fashion-mnist", "data.clients": 300, "data.partition": "dirichlet", "data.alpha": 0.3,
         "data.validation": 0.1, "model.name": "mlp", **BLOCK},
        {10: 200}, 5, 10, 32, searched=3, largest_beta=0.9,
    ),
}  # fmt: skip
"""None for Shakespeare, and none with 50 local steps but for Sent140: two cores are too slow for them."""


def task_cell(task: Task, of: str, steps: int, optimiser: str, name: str, at: Mapping[str, Place]) -> Cell:
    chosen = task.choice(of, steps, optimiser, name)
    settings = {
        **task.settings, **algorithm_settings(name, optimiser, chosen),
        "local.steps": steps, "local.batch_size": task.batch, "local.last_batch": "bootstrap",
        "server.weighting": "uniform", "run.rounds": task.rounds[steps], "run.cohort": task.cohort,
        "run.evaluate_every": task.every,
    }  # fmt: skip
    grid = task.grid(name, chosen[0])
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
        one for task, steps in product(TASKS, some) if task in tasks and steps in tasks[task].rounds
        for one in row_cells(tasks, task, steps, data=task, K=steps)
    )  # fmt: skip
