"""Tables 4 and 5: learning rates by grid search."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from driftless.papers.large_cohort.settings import PAPER_TASKS, SMALL_TASKS, STUDIED, Task, rates_of, run_settings
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Setup
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
    return tuple(
        Cell({"data": data, "algorithm": name}, run_settings(task, name, task.reference, more), grid=grid(name))
        for data, task in tasks.items()
        for name in STUDIED
        if rates_of(task, name)
    )


def paper_grid(name: str) -> Mapping[str, Sequence[float]]:
    both = {CLIENT: LEARNING_RATES, SERVER: LEARNING_RATES}
    return {SERVER: LEARNING_RATES} if name == "FedSGD" else both


def server_rate(*names: str, most: float, least: float = 0.0) -> Callable[[Outcome], Iterable[Check]]:
    def checks(outcome: Outcome) -> Iterable[Check]:
        for name in names:
            for one in outcome.pick(algorithm=name):
                rate = float(one.settings.get(SERVER, math.nan))
                text = f"{one.cell.at['data']}: {name} is best with server learning rate {rate:g}"
                if CLIENT in one.settings:
                    text += f", client learning rate {one.settings[CLIENT]:g}"
                yield Check(text, least <= rate <= most)

    return checks


TABLES_4_5 = Experiment(
    name="tables-4-5",
    title="Learning rates by grid search",
    where="Tables 4 and 5, appendix A.4",
    about="Client and server learning rate of every algorithm and task, 25 pairs of powers of ten, by the accuracy on "
    "held-out clients after 1,500 rounds with a small cohort.",
    paper=Setup(search_cells(PAPER_TASKS, paper_grid, {"data.validation": 0.2}), seeds=5),
    small=Setup(
        search_cells(SMALL_TASKS, SMALL_GRID.__getitem__, {}),
        reduced="Fashion-MNIST (MLP) and Sent140 (logistic regression) with cohorts of 20, 50 and 150 rounds, one "
        "seed, 4 to 6 pairs around what is usual for each algorithm. What wins here is used in all other experiments.",
    ),
    measure=HELD_OUT,
    claims=(
        Claim(
            "fedavg-one",
            "FedAvg is best with server learning rate 1 in every task.",
            "In each task the best pair of FedAvg has server learning rate 1.",
            server_rate("FedAvg", least=1.0, most=1.0),
        ),
        Claim(
            "layer-wise-small",
            "Layer-wise adaptive methods need a small server learning rate, 0.01 or less.",
            "In each task the best pairs of FedLARS and FedLamb have a server learning rate of at most 0.01.",
            server_rate("FedLARS", "FedLamb", most=0.01),
        ),
    ),
)
