"""What is measured on the runs, and the curves that several figures draw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from driftless.engine.evaluate import PERCENTILES
from driftless.report.curves import Run
from driftless.reproduce.experiment import Place
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import Floats, Measure, Missing, Outcome, Result

HELD_OUT = "validation_accuracy"


def last_rounds(result: Result, key: str = "test_accuracy") -> Floats:
    """The mean over the last 100 rounds, as in the paper; over the last quarter of a run of less than 400 rounds."""
    return result.of_runs(lambda run: mean_of_last_rounds(run, key))


def mean_of_last_rounds(run: Run, key: str) -> float:
    column = run.column(key)
    late = run.rounds > run.played - min(100, run.played / 4)
    values = column[late & ~np.isnan(column)]
    return float(values.mean()) if len(values) else math.nan


QUALITY = Measure("test accuracy (%), mean of the last 100 rounds or the last quarter", last_rounds, 100, digits=1)


def on_held_out_data(result: Result) -> Floats:
    """By which learning rates are chosen; not those with which a run diverges."""
    return result.of_runs(lambda run: math.nan if run.status == "diverged" else held_out_accuracy(run))


def held_out_accuracy(run: Run) -> float:
    """On clients that never train, or on held-out examples of each client, of which the percentiles over the clients
    are recorded. The paper scale trains on everything, as the paper does: there the quality itself decides."""
    if HELD_OUT in run.metrics:
        return mean_of_last_rounds(run, HELD_OUT)
    if keys := [f"test_p{p}" for p in PERCENTILES if f"test_p{p}" in run.metrics]:
        return float(np.mean([mean_of_last_rounds(run, key) for key in keys]))
    return mean_of_last_rounds(run, "test_accuracy")


SELECTION = Measure("accuracy (%) on held-out data, mean of the last rounds", on_held_out_data, 100, digits=1)


def accuracy_curves(outcome: Outcome) -> list[Panel]:
    """One panel for each setting."""
    found: list[Panel] = []
    for rest, _ in outcome.groups("algorithm"):
        at: dict[str, Any] = rest
        found += [replace(panel, title=setting_text(rest)) for panel in curves(outcome, "test_accuracy", **at)]
    return found


def setting_text(rest: Mapping[str, Place]) -> str:
    return ", ".join(map(str, rest.values()))


Scores = dict[str, Floats]
"""By algorithm, one for each seed."""


def scores_by_setting(outcome: Outcome, *needed: str) -> Iterator[tuple[str, Scores]]:
    """In each setting that has all of `needed`: its name, and the measure by algorithm."""
    found = False
    for rest, results in outcome.groups("algorithm"):
        scores = {str(one.cell.at["algorithm"]): outcome.measured(one) for one in results}
        if set(needed) <= set(scores):
            found = True
            yield setting_text(rest), scores
    if not found:
        raise Missing(f"{', '.join(needed)} are not run together at this scale")
