"""Figure 3: 100 and 1,000 clients, balanced and unbalanced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from driftless.papers.adabest.comparison import HELD_OUT, ahead_of_each, faster_than_each
from driftless.papers.adabest.settings import (
    ALGORITHMS,
    BETA,
    CIFAR100_MLP,
    COMMON,
    HETEROGENEITY,
    SIZE_ADAPTIVE,
    TASKS,
    algorithm,
    searched_betas,
)
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import LAST_ACCURACY, Outcome

SIZES = {"balanced": "balanced", "unbalanced": "lognormal", "unbalanced, sizes ignored": "lognormal"}
"""The last: FedDyn and SCAFFOLD without the weights of appendix B."""
SHARE = {1000: "1%", 100: "10%"}
"""Of the clients, in each round."""


def population_cells(task: Mapping[str, Any], rounds: Mapping[int, int]) -> tuple[Cell, ...]:
    """`rounds` by the number of clients."""
    return tuple(
        Cell(
            {"sizes": sizes, "clients": clients, "algorithm": name},
            {**task, **HETEROGENEITY["α=0.3"], "data.sizes": kind, **COMMON, **algorithm(name, BETA[SHARE[clients]]),
             **(SIZE_ADAPTIVE.get(name, {}) if sizes == "unbalanced" else {}),
             "server.weighting": "uniform",  # as in Algorithm 1; left alone, FedAvg would weigh by examples
             "data.clients": clients + clients // 10, "data.validation": clients // 10,
             "run.rounds": rounds[clients], "run.cohort": 10, "run.evaluate_every": rounds[clients] // 20},
            grid=searched_betas(name, SHARE[clients]),
        )
        for sizes, kind in SIZES.items()
        for clients in rounds
        for name in (SIZE_ADAPTIVE if sizes == "unbalanced, sizes ignored" else ALGORITHMS)
    )  # fmt: skip


def weights_do_no_harm(outcome: Outcome) -> Iterator[Check]:
    """FedDyn and SCAFFOLD with the weights of appendix B against the same without."""
    for name in ("FedDyn", "SCAFFOLD"):
        for clients in outcome.places("clients"):
            with_, without = (
                outcome.one(sizes=sizes, clients=clients, algorithm=name)
                for sizes in ("unbalanced", "unbalanced, sizes ignored")
            )
            what = f"{name}, {clients:,} clients, with weights against without"
            yield above(what, outcome.measured(with_), outcome.measured(without), by=-1, unit=" %")
            ratio = with_.final("norm_x") / without.final("norm_x")
            yield below(f"{what}: ratio of the norms", ratio, 1.1)


def titled(prefix: str, panels: Sequence[Panel]) -> list[Panel]:
    return [replace(panel, title=f"{prefix}, {panel.title}") for panel in panels]


FIGURE_3 = Experiment(
    name="figure-3",
    title="More clients, balanced and unbalanced",
    where="Figure 3, section 4.4, appendix B",
    about="CIFAR-100 with 1,000 or 100 training clients, equal or log-normal (0.3) numbers of examples, 10 clients a "
    "round. All algorithms average the clients' models without weights, as Algorithm 1 does; what clients' numbers of "
    "examples change is the weight of the estimates (appendix B).",
    paper=Setup(population_cells(TASKS["CIFAR100"], {1000: 1000, 100: 1000}), seeds=5),
    small=Setup(
        population_cells(CIFAR100_MLP, {1000: 200}),
        seeds=3,
        grid_seeds=1,
        reduced="The MLP of EMNIST-L instead of the CNN; 200 instead of 1,000 rounds; 1,000 clients only, because a "
        "round of 100, who have ten times as many examples each, takes ten times as long.",
    ),
    measure=LAST_ACCURACY,
    selection=HELD_OUT,
    claims=(
        Claim(
            "best-of-1000",
            "With 1,000 clients AdaBest is ahead of all baselines, balanced or not.",
            "AdaBest's accuracy at the end exceeds that of each other algorithm on average over both kinds of sizes.",
            lambda outcome: ahead_of_each(outcome.part(clients=1000)),
            paper="AdaBest's curves end highest (drawn)",
        ),
        Claim(
            "best-of-100",
            "With 100 clients as well.",
            "AdaBest's accuracy at the end exceeds that of each other algorithm on average over both kinds of sizes.",
            lambda outcome: ahead_of_each(outcome.part(clients=100)),
            paper="AdaBest's curves end highest (drawn)",
        ),
        Claim(
            "faster",
            "AdaBest converges faster than the other algorithms.",
            "The target of a setting is the lowest of the final accuracies. AdaBest first reaches it after fewer "
            "rounds than each other algorithm, on average over numbers of clients and kinds of sizes.",
            faster_than_each,
            paper='"significantly faster" (abstract), "notable gain" (section 4.4); no number',
        ),
        Claim(
            "weights-do-no-harm",
            "FedDyn and SCAFFOLD can weigh their estimates by a running mean of the clients' examples without loss of "
            "performance or stability.",
            "With unbalanced sizes, for each number of clients, with those weights each of them ends less than 1 "
            "point below its accuracy without, and with a norm of the model less than 1.1 times as large.",
            weights_do_no_harm,
            paper='"does not impede their performance nor their stability" (appendix B)',
        ),
    ),
    figure=lambda outcome: [
        panel
        for clients in outcome.places("clients")
        for panel in titled(f"{clients:,} clients", curves(outcome, "test_accuracy", by="sizes", clients=clients))
    ],
)
