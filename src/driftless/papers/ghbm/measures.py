"""What is measured on the runs, and the curves that several figures draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from driftless.reproduce.experiment import Number, Place
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import Measure, Missing, Outcome, Result, number


def last_rounds(result: Result, key: str = "test_accuracy") -> Number:
    """The mean over the last 100 rounds, as in the paper; over the last quarter of a run of less than 400 rounds."""
    parts: list[float] = []
    for run in result.runs:
        column = run.column(key)
        late = run.rounds > run.played - min(100, run.played / 4)
        values = column[late & ~np.isnan(column)]
        parts += [float(values.mean())] if len(values) else []
    return number(parts)


QUALITY = Measure("test accuracy (%), mean of the last 100 rounds or the last quarter", last_rounds, 100, digits=1)


def accuracy_curves(outcome: Outcome) -> list[Panel]:
    """One panel for each setting."""
    found: list[Panel] = []
    for rest, _ in outcome.groups("algorithm"):
        at: dict[str, Any] = rest
        found += [replace(panel, title=setting_text(rest)) for panel in curves(outcome, "test_accuracy", **at)]
    return found


def setting_text(rest: Mapping[str, Place]) -> str:
    return ", ".join(map(str, rest.values()))


Scores = dict[str, float]


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
