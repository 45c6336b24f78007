"""Stability of the cloud model over many rounds: what figures 1, 4, 5 and 6 share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from driftless.papers.adabest.settings import HETEROGENEITY, LOCAL, algorithm
from driftless.reproduce.experiment import Cell, Check
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import Outcome

STUDIED = ("SCAFFOLD", "FedDyn", "AdaBest")
SMALL_ROUNDS = 500
"""Of figures 4 and 6 at small scale."""


def stability_cells(
    task: Mapping[str, Any], clients: int, labels: str, rounds: int, names: Sequence[str], held_out: int | None = None
) -> tuple[Cell, ...]:
    """Section D.3: 5 clients a round, one tenth more clients held out."""
    held_out = clients // 10 if held_out is None else held_out
    return tuple(
        Cell(
            {"algorithm": name},
            {**task, **HETEROGENEITY[labels], **LOCAL, **algorithm(name, beta=0.8), "data.clients": clients + held_out,
             "data.validation": held_out, "run.rounds": rounds, "run.cohort": 5,
             "run.evaluate_every": max(1, rounds // 40)},
        )
        for name in names
    )  # fmt: skip


def norm_growth(outcome: Outcome) -> Iterable[Check]:
    """From the first quarter of the run to its end."""
    growth = {name: quarter_growth(outcome, name) for name in ("FedDyn", "AdaBest")}
    yield Check(f"FedDyn's norm of the cloud model grows {growth['FedDyn']:.3g}-fold", growth["FedDyn"] > 2)
    yield Check(f"AdaBest's grows {growth['AdaBest']:.3g}-fold", growth["AdaBest"] < 2)


def quarter_growth(outcome: Outcome, name: str) -> float:
    _, norm, _ = outcome.one(algorithm=name).curve("norm_x")
    return float(norm[-1] / norm[len(norm) // 4])


def accuracy_falls(outcome: Outcome) -> Iterable[Check]:
    """By how much the end is below the best evaluation, in points."""
    for name, allowed, falling in (("FedDyn", 2.0, True), ("AdaBest", 2.0, False)):
        one = outcome.one(algorithm=name)
        lost = 100 * (one.best().mean - one.last().mean)
        yield Check(f"{name} ends {lost:.2f} points below its best", (lost > allowed) == falling)


def for_each_model(checks: Callable[[Outcome], Iterable[Check]]) -> Callable[[Outcome], Iterable[Check]]:
    """The same checks for every model that was trained, each named in front."""

    def all_checks(outcome: Outcome) -> Iterable[Check]:
        for model in outcome.places("model"):
            for check in checks(outcome.part(model=model)):
                yield Check(f"{model}: {check.text}", check.holds)

    return all_checks


def stability_figure(outcome: Outcome) -> list[Panel]:
    keys = ("test_loss", "norm_x", "test_accuracy")
    by = "model" if outcome.places("model") else None
    rows = [curves(outcome, key, by=by, log=key != "test_accuracy") for key in keys]
    return [panel for model in zip(*rows, strict=True) for panel in model]
