"""What is measured on a curve, in per cent, and which cells are compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np

from driftless.reproduce.experiment import Place
from driftless.reproduce.outcome import Measure, Outcome, Result

BEST_ACCURACY = Measure("highest test accuracy (%)", lambda result: result.best(), 100)
"""What the authors tuned for."""


def highest_accuracy(result: Result) -> float:
    return BEST_ACCURACY(result).mean


def mean_accuracy(result: Result) -> float:
    """Test accuracy, mean over the run: who rises earlier has more."""
    return 100 * result.mean("test_accuracy").mean


def early_accuracy(result: Result) -> float:
    """Test accuracy, mean over the first fifth of the evaluations."""
    parts = [values[: max(1, round(len(values) / 5))] for values in result.each("test_accuracy") if len(values)]
    return 100 * float(np.mean([part.mean() for part in parts])) if parts else math.nan


def mean_change(result: Result) -> float:
    """Mean change of the test accuracy from one evaluation to the next, in the second half."""
    parts = [np.abs(np.diff(values[len(values) // 2 :])) for values in result.each("test_accuracy")]
    return 100 * float(np.mean([part.mean() for part in parts])) if all(len(part) for part in parts) else math.nan


def find(outcome: Outcome, name: str, optimiser: str, **at: Place) -> Result | None:
    """None where this scale leaves the cell out."""
    return next(iter(outcome.pick(algorithm=name, optimiser=optimiser, **at)), None)


def pairs(
    outcome: Outcome, names: Iterable[str], optimisers: Iterable[str], other: tuple[str, str | None], **at: Place
) -> Iterator[tuple[str, Result, Result]]:
    """Cells beside another one: (name, optimiser), where None stands for the same optimiser."""
    for name, optimiser in product(names, optimisers):
        one, rival = find(outcome, name, optimiser, **at), find(outcome, other[0], other[1] or optimiser, **at)
        if one and rival and (name, optimiser) != (other[0], other[1] or optimiser):
            text = "FedAvg" if other[0] == "FedAvg" else f"{other[0]} {other[1] or optimiser}"
            yield f"{name} {optimiser} against {text}", one, rival


def combinations_of(outcome: Outcome) -> list[tuple[str, Result]]:
    """All combinations, FedAvg once."""
    named = {one.cell.at["algorithm"] if one.cell.at["algorithm"] == "FedAvg"
             else f"{one.cell.at['algorithm']} {one.cell.at['optimiser']}": one for one in outcome.results}  # fmt: skip
    return [(str(name), one) for name, one in named.items()]
