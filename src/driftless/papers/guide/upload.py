"""Upload is dear: the accuracy that a given number of bytes buys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from driftless.papers.guide.measures import HELD_OUT, TEST, last_quarter, score
from driftless.papers.guide.settings import CHOSEN, HUNDRED, LABELS, cell, label_cells, setup
from driftless.report.curves import Run
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Cell, Claim, Experiment
from driftless.reproduce.figure import curves
from driftless.reproduce.outcome import Measure, Outcome

FEW = "α=0.05"
BUDGET = 15e6
"""Bytes: what 10 clients with FedAvg send in 21 rounds."""
DEFAULT_EPOCHS = 5
OTHER_EPOCHS = (1, 20)
NAMES = ("FedAvg", "FedAvgM", "GHBM", "FedDyn", "AdaBest", "SCAFFOLD-slim", "SCAFFOLD", "MimeLite")


def affordable(run: Run, key: str) -> float:
    """Of the rounds that the budget pays for."""
    sent = np.cumsum(np.nan_to_num(run.column("bytes_up")))
    return last_quarter(run, key, float(run.rounds[sent <= BUDGET][-1]))


ACCURACY = Measure(
    "test accuracy (%) for 15 MB of uploads, mean of the last quarter of the rounds that they pay for",
    lambda result: result.of_runs(lambda run: affordable(run, TEST)),
    100,
    digits=1,
)
SELECTION = replace(ACCURACY, of=lambda result: result.of_runs(lambda run: affordable(run, HELD_OUT)))


def cells() -> tuple[Cell, ...]:
    usual = tuple(
        replace(one, at={"epochs": DEFAULT_EPOCHS, "algorithm": one.at["algorithm"]})
        for one in label_cells(NAMES, (FEW,))
    )
    more = (
        cell("FedAvg", {"epochs": epochs}, {**HUNDRED, **LABELS[FEW], "local.epochs": epochs})
        for epochs in OTHER_EPOCHS
    )
    return *usual, *more


def two_vectors(outcome: Outcome) -> Iterator[Check]:
    for name in ("SCAFFOLD", "MimeLite"):
        ours, fedavg = (score(outcome, one, epochs=DEFAULT_EPOCHS) for one in (name, "FedAvg"))
        yield below(f"{name} against FedAvg", ours, fedavg, unit=" %")


def one_vector(outcome: Outcome) -> Iterator[Check]:
    for name in ("FedDyn", "AdaBest"):
        ours, scaffold = (score(outcome, one, epochs=DEFAULT_EPOCHS) for one in (name, "SCAFFOLD"))
        yield above(f"{name} against SCAFFOLD", ours, scaffold, unit=" %")


def slim(outcome: Outcome) -> Iterator[Check]:
    ours, scaffold = (score(outcome, one, epochs=DEFAULT_EPOCHS) for one in ("SCAFFOLD-slim", "SCAFFOLD"))
    yield above("SCAFFOLD-slim against SCAFFOLD", ours, scaffold, unit=" %")


def epochs_pay(more: int, less: int) -> Callable[[Outcome], Iterator[Check]]:
    def checks(outcome: Outcome) -> Iterator[Check]:
        one, other = (score(outcome, "FedAvg", epochs=epochs) for epochs in (more, less))
        yield above(f"FedAvg, {more} epochs against {less}", one, other, unit=" %")

    return checks


SETUP = setup(cells())
UPLOAD = Experiment(
    name="upload",
    title="Upload is dear",
    where="Study 3",
    about=f"{CHOSEN} 100 clients of 12 examples, 10 of them a round, α = 0.05. What counts is the accuracy when 15 MB "
    "have been sent up: 21 rounds of an algorithm that uploads one vector of the model's size, 10 rounds of one that "
    "uploads two. FedAvg also runs with 1 and 20 local epochs.",
    paper=SETUP,
    small=SETUP,
    measure=ACCURACY,
    selection=SELECTION,
    figure=lambda outcome: curves(outcome, "test_accuracy", axis="megabytes"),
    ours=True,
    claims=(
        Claim(
            "two-vectors",
            "For the same upload, methods that send two vectors a round are less accurate than FedAvg.",
            "The accuracies of SCAFFOLD and of MimeLite for 15 MB are each below FedAvg's.",
            two_vectors,
        ),
        Claim(
            "one-vector",
            "For the same upload, FedDyn and AdaBest, which send one vector, are more accurate than SCAFFOLD.",
            "The accuracies of FedDyn and of AdaBest for 15 MB are each above SCAFFOLD's.",
            one_vector,
        ),
        Claim(
            "slim",
            "For the same upload, SCAFFOLD-slim, which sends one vector, is more accurate than SCAFFOLD.",
            "Its accuracy for 15 MB is above SCAFFOLD's.",
            slim,
        ),
        Claim(
            "five-epochs",
            "Five local epochs buy more accuracy for the same upload than one.",
            "FedAvg's accuracy for 15 MB is higher with 5 local epochs than with 1.",
            epochs_pay(DEFAULT_EPOCHS, 1),
        ),
        Claim(
            "twenty-epochs",
            "Twenty local epochs buy more accuracy for the same upload than five.",
            "FedAvg's accuracy for 15 MB is higher with 20 local epochs than with 5.",
            epochs_pay(20, DEFAULT_EPOCHS),
        ),
    ),
)
