"""Stability of the cloud model over many rounds: what figures 1, 4, 5 and 6 share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from driftless.papers.adabest.settings import COMMON, HETEROGENEITY, algorithm
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Cell
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import Floats, Outcome, Result

STUDIED = ("SCAFFOLD", "FedDyn", "AdaBest")
GROWN = 2.0
"""A norm that grows by more from the first quarter of the rounds to the end keeps growing."""
FALLEN = 2.0
"""Points of accuracy."""


def stability_settings(
    task: Mapping[str, Any], clients: int, labels: str, rounds: int, held_out: int
) -> dict[str, Any]:
    """Section D.3: 5 clients a round, about one tenth more are held out."""
    return {**task, **HETEROGENEITY[labels], **COMMON, "data.clients": clients + held_out, "data.validation": held_out,
            "run.rounds": rounds, "run.cohort": 5, "run.evaluate_every": max(1, rounds // 40)}  # fmt: skip


def stability_cells(settings: Mapping[str, Any], beta: float, names: Sequence[str] = STUDIED) -> tuple[Cell, ...]:
    return tuple(Cell({"algorithm": name}, {**settings, **algorithm(name, beta)}) for name in names)


def growth(result: Result) -> Floats:
    """Of the norm of the cloud model, from the first quarter of the rounds to the end."""
    return result.per_seed("norm_x", lambda norms: norms[-1] / norms[len(norms) // 4])


def norm_growth(outcome: Outcome) -> Iterable[Check]:
    what = "norm of {}'s cloud model, end against a quarter of the rounds"
    yield above(what.format("FedDyn"), growth(outcome.one(algorithm="FedDyn")), GROWN, unit="-fold")
    yield below(what.format("AdaBest"), growth(outcome.one(algorithm="AdaBest")), GROWN, unit="-fold")


def fall(result: Result, key: str = "test_accuracy") -> Floats:
    """Points from the best tenth of the run to its last."""
    return 100 * result.per_seed(key, lambda values: max(tenths(values)) - tenths(values)[-1])


def tenths(values: Floats) -> list[float]:
    """Means over tenths of the run, counted from its end."""
    length = max(1, len(values) // 10)
    ends = range(len(values), length - 1, -length)
    return [float(values[end - length : end].mean()) for end in reversed(ends)]


def falls(outcome: Outcome, *names: str, key: str = "test_accuracy") -> Iterable[Check]:
    for name in names:
        yield above(f"{name}: best tenth less the last", fall(outcome.one(algorithm=name), key), FALLEN, unit=" points")


def does_not_fall(outcome: Outcome, name: str, key: str = "test_accuracy") -> Check:
    return below(f"{name}: best tenth less the last", fall(outcome.one(algorithm=name), key), FALLEN, unit=" points")


def accuracy_falls(outcome: Outcome) -> Iterable[Check]:
    yield from falls(outcome, "FedDyn")
    yield does_not_fall(outcome, "AdaBest")


def stability_figure(outcome: Outcome) -> list[Panel]:
    keys = ("test_loss", "norm_x", "test_accuracy")
    return [panel for key in keys for panel in curves(outcome, key, log=key != "test_accuracy")]
