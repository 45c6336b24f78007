"""What is measured on a curve, in per cent and for each seed, and which cells are compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np

from driftless.reproduce.checks import Compared, above
from driftless.reproduce.experiment import Place
from driftless.reproduce.outcome import Floats, Measure, Outcome, Result

BEST_ACCURACY = Measure("highest test accuracy (%)", lambda result: result.best(), 100)
"""What the authors tuned for."""
HELD_OUT_ACCURACY = Measure(
    "highest accuracy (%) on held-out clients", lambda result: result.best("validation_accuracy"), 100
)
"""What decides between learning rates here, so that none is chosen on the test set."""


def highest_accuracy(result: Result) -> Floats:
    return BEST_ACCURACY(result)


def mean_accuracy(result: Result) -> Floats:
    """Test accuracy, mean over the run: who rises earlier has more."""
    return 100 * result.mean("test_accuracy")


def early_accuracy(result: Result) -> Floats:
    """Test accuracy, mean over the first fifth of the evaluations."""
    return 100 * result.per_seed("test_accuracy", lambda values: values[: max(1, round(len(values) / 5))].mean())


def mean_change(result: Result) -> Floats:
    """Mean change of the test accuracy from one evaluation to the next, in the second half."""

    def of(values: Floats) -> float:
        changes = np.abs(np.diff(values[len(values) // 2 :]))
        return float(changes.mean()) if len(changes) else math.nan

    return 100 * result.per_seed("test_accuracy", of)


def faster(text: str, one: Result, other: Result, by: float = 0.0, times: float = 1.0) -> Compared:
    """By the mean accuracy: above `times` the other's, by more than `by` points."""
    what = f"mean accuracy, {text}" if times == 1 else f"mean accuracy, {text} x {times:g}"
    return above(what, mean_accuracy(one), times * mean_accuracy(other), by, " %")


def higher(text: str, one: Result, other: Result, by: float = 0.0) -> Compared:
    return above(f"highest accuracy, {text}", highest_accuracy(one), highest_accuracy(other), by, " %")


def starts_faster(text: str, one: Result, other: Result) -> Compared:
    return above(f"accuracy in the first fifth, {text}", early_accuracy(one), early_accuracy(other), unit=" %")


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
