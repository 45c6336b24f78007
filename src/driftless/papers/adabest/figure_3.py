"""Figure 3: 100 and 1,000 clients, balanced and unbalanced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from driftless.papers.adabest.settings import ALGORITHMS, CIFAR100_MLP, HETEROGENEITY, LOCAL, TASKS, algorithm
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Setup
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import LAST_ACCURACY, Outcome, winner


def population_cells(task: Mapping[str, Any], rounds: Mapping[int, int]) -> tuple[Cell, ...]:
    sizes = {"balanced": "balanced", "unbalanced": "lognormal"}
    return tuple(
        Cell(
            {"sizes": balance, "clients": clients, "algorithm": name},
            {**task, **HETEROGENEITY["α=0.3"], "data.sizes": kind, **LOCAL,
             **algorithm(name, 0.96 if clients == 100 else 0.8), "data.clients": clients + clients // 10,
             "data.validation": clients // 10, "run.rounds": rounds[clients], "run.cohort": 10,
             "run.evaluate_every": rounds[clients] // 20},
        )
        for balance, kind in sizes.items()
        for clients in (1000, 100)
        for name in ALGORITHMS
    )  # fmt: skip


def best_of_1000(outcome: Outcome) -> Iterable[Check]:
    yield from winner(outcome.part(clients=1000), "AdaBest")


def titled(prefix: str, panels: Sequence[Panel]) -> list[Panel]:
    return [replace(panel, title=f"{prefix}, {panel.title}") for panel in panels]


FIGURE_3 = Experiment(
    name="figure-3",
    title="More clients, balanced and unbalanced",
    where="Figure 3, section 4.4",
    about="CIFAR-100 with 1,000 or 100 training clients, equal or log-normal (0.3) numbers of examples, 10 clients a "
    "round.",
    paper=Setup(population_cells(TASKS["CIFAR100"], {1000: 1000, 100: 1000}), seeds=5),
    small=Setup(
        population_cells(CIFAR100_MLP, {1000: 100, 100: 20}),
        reduced="The MLP of EMNIST-L instead of the CNN; 100 rounds for 1,000 clients and 20 for 100; one seed.",
    ),
    measure=LAST_ACCURACY,
    claims=(
        Claim(
            "best-of-1000",
            "With 1,000 clients AdaBest is ahead of all baselines, balanced or not.",
            "For both kinds of sizes AdaBest's accuracy at the end is at least that of every other algorithm.",
            best_of_1000,
        ),
        Claim(
            "best-of-100",
            "With 100 clients as well.",
            "For both kinds of sizes AdaBest's accuracy at the end is at least that of every other algorithm.",
            lambda outcome: winner(outcome.part(clients=100), "AdaBest"),
        ),
    ),
    figure=lambda outcome: [
        panel
        for clients in (1000, 100)
        for panel in titled(f"{clients} clients", curves(outcome, "test_accuracy", by="sizes", clients=clients))
    ],
)
