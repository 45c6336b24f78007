"""Tasks, algorithms and learning rates (section 2.1, appendix A), and the cells that most figures share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driftless.reproduce.experiment import Cell, Place, Setup
from driftless.reproduce.published import published

ALGORITHMS: dict[str, dict[str, Any]] = {
    "FedAvg": {"algorithm.name": "fedavg"},
    "FedAvgM": {"algorithm.name": "fedavgm", "algorithm.momentum": 0.9},
    "FedAdagrad": {"algorithm.name": "fedadagrad", "algorithm.eps": 1e-3},
    "FedAdam": {"algorithm.name": "fedadam", "algorithm.beta1": 0.9, "algorithm.beta2": 0.99, "algorithm.eps": 1e-3},
    "FedLARS": {"algorithm.name": "fedlars", "algorithm.momentum": 0.9, "algorithm.eps": 1e-3},
    "FedLamb": {"algorithm.name": "fedlamb", "algorithm.beta1": 0.9, "algorithm.beta2": 0.99, "algorithm.eps": 1e-3},
    "FedSGD": {"algorithm.name": "fedsgd"},
    "normalised FedAvg": {"algorithm.name": "normalized-fedavg"},
}
"""Table 3; the normalised variant of section 5.4 has no hyper-parameter of its own."""
STUDIED = ("FedSGD", "FedAvg", "FedAvgM", "FedAdagrad", "FedAdam", "FedLARS", "FedLamb")
"""In the order of figures 11-17 and 29-35."""
LOCAL_STEPS = STUDIED[1:]
"""Those whose clients take more than one step a round."""
COMPARED = ("FedAvg", "FedAdam", "FedAdagrad", "FedLARS", "FedLamb")
"""In figures 8, 18-24."""
CLIPPING = {
    "server.clipping": "adaptive", "server.clipping_quantile": 0.8, "server.clipping_lr": 0.2,
    "server.clipping_initial": 1.0,
}  # fmt: skip
"""Everywhere but in figure 1 (appendix A.3)."""
NO_CLIPPING = {"server.clipping": "none"}
TABLES_4_5 = published(__file__, "tables_4_5")
Rates = Mapping[str, tuple[float, float]]
"""Algorithm -> (client, server) learning rate."""


@dataclass(frozen=True)
class Task:
    settings: Mapping[str, Any]
    """Data, model and batch size."""
    rounds: int
    evaluate_every: int
    cohorts: tuple[int, ...]
    reference: int
    """The cohort that the others are compared with, and that learning rates are scaled from: M = 50."""
    target: float
    """The test accuracy to which rounds, examples and time are counted."""
    few_clients: bool
    """Whether the largest cohort is most of the population: where the paper sees generalisation failures."""
    rates: Rates
    """Of the algorithms that are run on it."""

    @property
    def warm_up(self) -> int:
        """100 of 1,500 rounds."""
        return self.rounds // 15


def published_rates(data: str) -> Rates:
    column = TABLES_4_5["columns"].index(data)
    return {name: (TABLES_4_5["client"][name][column], row[column]) for name, row in TABLES_4_5["server"].items()}


UP_TO_400 = (1, 10, 50, 100, 200, 400)
UP_TO_800 = (*UP_TO_400, 800)
PAPER_TASKS = {
    "CIFAR-100": Task(
        {"data.name": "cifar100", "data.clients": 500, "data.partition": "pachinko", "data.crop": 24,
         "data.normalize": "image", "model.name": "resnet-18", "local.batch_size": 20},
        1500, 10, UP_TO_400, 50, 0.3, True, published_rates("CIFAR-100"),
    ),
    "EMNIST": Task(
        {"data.name": "femnist", "data.source": "tff", "model.name": "cnn-emnist", "local.batch_size": 20},
        1500, 10, UP_TO_800, 50, 0.7, False, published_rates("EMNIST"),
    ),
    "Shakespeare": Task(
        {"data.name": "shakespeare", "data.source": "tff", "data.targets": "sequence", "data.length": 80,
         "model.name": "lstm-large-cohort", "local.batch_size": 4},
        1500, 10, UP_TO_400, 50, 0.5, True, published_rates("Shakespeare"),
    ),
    "Stack Overflow": Task(
        {"data.name": "stackoverflow", "data.words": 10_000, "data.length": 20, "data.limit_users": None,
         "data.max_examples_per_user": 1000, "model.name": "lstm-stackoverflow", "local.batch_size": 32},
        1500, 50, UP_TO_800, 50, 0.2, False, published_rates("Stack Overflow"),
    ),
}  # fmt: skip
# The learning rates of the small tasks are those that `tables-4-5` found at small scale with its first three seeds.
SMALL_RUN = {"engine.kind": "block", "run.checkpoint_every": 0}
SMALL_TASKS = {
    "Fashion-MNIST": Task(
        {"data.name": "fashion-mnist", "data.clients": 1000, "data.validation": 100, "data.partition": "dirichlet",
         "data.alpha": 0.3, "data.sizes": "lognormal", "data.sigma": 0.4, "model.name": "mlp", "local.batch_size": 20,
         **SMALL_RUN},
        100, 4, (5, 20, 80, 320), 20, 0.7, False,
        {"FedAvg": (0.1, 1.0), "FedAdagrad": (0.1, 0.01), "FedAdam": (0.1, 0.01),
         "FedLARS": (0.1, 0.01), "FedLamb": (0.1, 0.01), "FedSGD": (1.0, 0.1)},
    ),
    "Sent140": Task(
        {"data.name": "sent140", "data.source": "users", "data.words": 2000, "data.bag": "binary",
         "data.min_tweets": 8, "data.validation": 0.2, "model.name": "logistic", "local.batch_size": 2,
         **SMALL_RUN},
        150, 5, (5, 20, 80, 320), 20, 0.6, True,
        {"FedAvg": (1.0, 1.0), "FedAvgM": (1.0, 0.1), "FedAdagrad": (0.1, 0.01), "FedAdam": (0.1, 0.01),
         "FedLARS": (1.0, 0.01), "FedLamb": (0.1, 0.01), "FedSGD": (1.0, 1.0)},
    ),
}  # fmt: skip
TASKS = {**PAPER_TASKS, **SMALL_TASKS}
REDUCED = (
    "Two small tasks stand in for the four of the paper. Fashion-MNIST for EMNIST: an MLP, 900 clients of about 60 "
    "examples with skewed labels (Dirichlet 0.3), 100 rounds, 100 more clients held out. Sent140 for the "
    "tasks with few clients: logistic regression on words, 340 real accounts of about 9 tweets, batches of 2, 150 "
    "rounds. Cohorts of 5, 20, 80 and 320 clients in place of 10 to 800, the last nearly all of Sent140's accounts; "
    "learning rates found as in the paper on a coarser grid (tables 4 and 5 below); FedAvgM on Sent140 only."
)


def rates_of(task: Task, algorithm: str) -> tuple[float, float] | None:
    """None: not run on this task. The normalised variant has FedAvg's rates."""
    return task.rates.get("FedAvg" if algorithm == "normalised FedAvg" else algorithm)


def run_settings(
    task: Task, algorithm: str, cohort: int | str, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """One run: Algorithm 2, one local epoch, p_k = examples; `more` is what an experiment changes."""
    rates = rates_of(task, algorithm)
    assert rates is not None, f"{algorithm} has no learning rates for this task"
    client, server = rates
    run = {"run.rounds": task.rounds, "run.cohort": cohort, "run.evaluate_every": task.evaluate_every}
    local = {"local.epochs": 1, "local.lr": client, "server.weighting": "examples"}
    found = {**task.settings, **ALGORITHMS[algorithm], "algorithm.server_lr": server, **local, **CLIPPING, **run,
             "evaluate.cohort": True}  # fmt: skip
    if algorithm == "FedSGD":  # one step on all examples, which the algorithm itself demands
        for key in ("local.epochs", "local.lr", "local.batch_size"):
            del found[key]
    return {**found, **(more or {})}


def cells(
    tasks: Mapping[str, Task],
    algorithms: Sequence[str],
    cohorts: Callable[[Task], Iterable[int]] = lambda task: task.cohorts,
    more: Callable[[Task], Mapping[str, Any]] = lambda task: {},
    **at: Place,
) -> tuple[Cell, ...]:
    """Every task, algorithm and cohort: the runs that most figures share."""
    return tuple(
        Cell({"data": data, "algorithm": name, **at, "cohort": cohort}, run_settings(task, name, cohort, more(task)))
        for data, task in tasks.items()
        for name in algorithms
        if rates_of(task, name)
        for cohort in cohorts(task)
    )


def reference_only(task: Task) -> Iterable[int]:
    return (task.reference,)


def from_reference(task: Task) -> Iterable[int]:
    return (cohort for cohort in task.cohorts if cohort >= task.reference)


def above_reference(task: Task) -> Iterable[int]:
    return (cohort for cohort in task.cohorts if cohort > task.reference)


def small_setup(*algorithms: str, **options: Any) -> Setup:
    return Setup(cells(SMALL_TASKS, algorithms, **options), seeds=3, most_seeds=6, reduced=REDUCED)


def paper_setup(*algorithms: str, **options: Any) -> Setup:
    return Setup(cells(PAPER_TASKS, algorithms, **options), seeds=5)


def scaled_server_lr(rule: str) -> Callable[[Task], Mapping[str, Any]]:
    """Warm-up from zero, as appendix B.7 says; section 5.1 starts it from the unscaled rate."""
    return lambda task: {"server.lr_scaling": rule, "server.reference_cohort": task.reference,
                         "server.warmup_rounds": task.warm_up, "server.warmup_from": "zero"}  # fmt: skip
