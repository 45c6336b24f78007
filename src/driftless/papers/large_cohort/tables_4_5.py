"""Tables 4 and 5: learning rates by grid search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from driftless.papers.large_cohort.settings import PAPER_TASKS, SMALL_TASKS, STUDIED, Task, rates_of, run_settings
from driftless.reproduce.checks import Check, above
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.outcome import Measure, Outcome

LEARNING_RATES = (0.001, 0.01, 0.1, 1.0, 10.0)
"""The grid of both learning rates, 25 pairs (appendix A.4)."""
HELD_OUT = Measure(
    "accuracy on held-out clients (%), mean of the last tenth", lambda r: r.last("validation_accuracy"), 100
)
CLIENT, SERVER = "local.lr", "algorithm.server_lr"
SMALL_GRID = {
    "FedAvg": {CLIENT: (0.01, 0.1, 1.0), SERVER: (0.1, 1.0)},
    "FedAvgM": {CLIENT: (0.1, 1.0), SERVER: (0.1, 1.0)},
    "FedAdagrad": {CLIENT: (0.1, 1.0), SERVER: (0.01, 0.1)},
    "FedAdam": {CLIENT: (0.1, 1.0), SERVER: (0.001, 0.01, 0.1)},
    "FedLARS": {CLIENT: (0.1, 1.0), SERVER: (0.001, 0.01, 0.1)},
    "FedLamb": {CLIENT: (0.1, 1.0), SERVER: (0.001, 0.01, 0.1)},
    "FedSGD": {SERVER: (0.01, 0.1, 1.0, 10.0)},
}


def search_cells(
    tasks: Mapping[str, Task], grid: Callable[[str], Mapping[str, Sequence[float]]], more: Mapping[str, Any]
) -> tuple[Cell, ...]:
    """A cell for each server learning rate; the client's is searched within it."""
    return tuple(
        Cell(
            {"data": data, "algorithm": name, "server rate": rate},
            {**run_settings(task, name, task.reference, more), SERVER: rate},
            grid={key: rates for key, rates in grid(name).items() if key == CLIENT},
        )
        for data, task in tasks.items()
        for name in STUDIED
        if rates_of(task, name)
        for rate in grid(name)[SERVER]
    )


def paper_grid(name: str) -> Mapping[str, Sequence[float]]:
    both = {CLIENT: LEARNING_RATES, SERVER: LEARNING_RATES}
    return {SERVER: LEARNING_RATES} if name == "FedSGD" else both


def one_is_best(outcome: Outcome) -> Iterable[Check]:
    for data in outcome.places("data"):
        best = outcome.one(data=data, algorithm="FedAvg", **{"server rate": 1.0})
        for other in outcome.pick(data=data, algorithm="FedAvg"):
            if other is not best:
                what = f"{data}, FedAvg: server learning rate 1 against {other.cell.at['server rate']:g}"
                yield above(what, HELD_OUT(best), HELD_OUT(other), unit=" %")


def small_is_best(outcome: Outcome) -> Iterable[Check]:
    """At most 0.01, represented by 0.01, against every larger rate."""
    for data, name in product(outcome.places("data"), ("FedLARS", "FedLamb")):
        small = outcome.one(data=data, algorithm=name, **{"server rate": 0.01})
        for other in outcome.pick(data=data, algorithm=name):
            if (rate := float(other.cell.at["server rate"])) > 0.01:
                what = f"{data}, {name}: server learning rate 0.01 against {rate:g}"
                yield above(what, HELD_OUT(small), HELD_OUT(other), unit=" %")


TABLES_4_5 = Experiment(
    name="tables-4-5",
    title="Learning rates by grid search",
    where="Tables 4 and 5, appendix A.4",
    about="Client and server learning rate of every algorithm and task, 25 pairs of powers of ten, by the accuracy on "
    "held-out clients after 1,500 rounds with a small cohort. For each server learning rate the best of the client's "
    "is shown.",
    paper=Setup(search_cells(PAPER_TASKS, paper_grid, {"data.validation": 0.2}), seeds=5),
    small=Setup(
        search_cells(SMALL_TASKS, SMALL_GRID.__getitem__, {}),
        seeds=3,
        most_seeds=6,
        grid_seeds=1,
        reduced="Fashion-MNIST (MLP) and Sent140 (logistic regression) with cohorts of 20, 100 and 150 rounds, 4 to 6 "
        "pairs around what is usual for each algorithm; the client's rate is chosen with the first seed. What wins "
        "here is used in all other experiments.",
    ),
    measure=HELD_OUT,
    columns="server rate",
    claims=(
        Claim(
            "fedavg-one",
            "FedAvg is best with server learning rate 1 in every task.",
            "In each task FedAvg's accuracy on held-out clients is higher with server learning rate 1 than with every "
            "other, each with its best client learning rate.",
            one_is_best,
            paper="1 in all four tasks",
        ),
        Claim(
            "layer-wise-small",
            "Layer-wise adaptive methods need a small server learning rate, 0.01 or less.",
            "In each task the accuracy on held-out clients of FedLARS and FedLamb is higher with server learning rate "
            "0.01 than with every larger one, each with its best client learning rate.",
            small_is_best,
            paper="0.001 or 0.01 in all four tasks",
        ),
    ),
)
