"""All degrees of heterogeneity: what figures 3 and 6 share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from driftless.papers.ghbm.measures import QUALITY, Scores
from driftless.papers.ghbm.settings import ALPHA
from driftless.reproduce.experiment import Cell
from driftless.reproduce.figure import Panel, sweep
from driftless.reproduce.outcome import Outcome, Result
from driftless.reproduce.published import as_number, published

ALPHAS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 10.0, 10_000.0)
"""The ends are those of the text; the degrees between them are only drawn, and these are ours."""
SMALL_ALPHAS = (0.0, 0.5, 10_000.0)
MODERATE = 0.5
"""From here on heterogeneity is not extreme."""
SWEPT = ("FedAvg", "FedAvgM", "SCAFFOLD", "MimeMom", "FedHBM")
ABOUT_ALPHA = "CIFAR-10, 10 of 100 clients a round, from one class a client (α = 0) to iid (α = 10,000). "
TABLE_8 = published(__file__, "table_8")


def alpha_cells(cell: Callable[..., Cell], tasks: Sequence[str], alphas: Sequence[float]) -> tuple[Cell, ...]:
    return tuple(
        cell(alpha=alpha, name=name, task=task, at={"data": task, "alpha": alpha, "algorithm": name})
        for task in tasks
        for alpha in alphas
        for name in SWEPT
    )


def printed_at_the_ends(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """With the numbers of Table 8, which has the same runs at α = 0 and 10,000."""
    columns = [(task, ALPHA[labels]) for task, labels in TABLE_8["columns"]]

    def number(at: Mapping[str, Any]) -> Sequence[float]:
        place = (at["data"], at["alpha"])
        return TABLE_8["accuracy"][at["algorithm"]][columns.index(place)] if place in columns else ()

    return tuple(replace(cell, published=as_number(number(cell.at))) for cell in cells)


def with_zero_at_a_hundredth(outcome: Outcome) -> Outcome:
    """α = 0 has no place on a logarithmic axis: it is drawn at 0.01."""
    moved = tuple(
        Result(Cell({**one.cell.at, "alpha": max(0.01, float(one.cell.at["alpha"]))}, one.cell.settings), one.runs)
        for one in outcome.results
    )
    return Outcome(outcome.experiment, outcome.setup, moved)


def over_alpha(outcome: Outcome) -> list[Panel]:
    assert outcome.experiment.measure is not None
    panels = sweep(with_zero_at_a_hundredth(outcome), "alpha", outcome.experiment.measure, by="data", log_x=True)
    y = "test accuracy (%)" if outcome.experiment.measure is QUALITY else "rounds to 70 % accuracy"
    return [replace(panel, x="α (0 is drawn at 0.01)", y=y) for panel in panels]


def scores_at(outcome: Outcome, wanted: Callable[[float], bool]) -> Iterator[tuple[str, float, Scores]]:
    """The data, α and scores at each wanted α."""
    for task in outcome.places("data"):
        part = outcome.part(data=task)
        for alpha in sorted(float(value) for value in part.places("alpha")):
            if wanted(alpha):
                results = part.pick(alpha=alpha)
                scores = {str(one.cell.at["algorithm"]): outcome.measured(one) for one in results}
                yield str(task), alpha, scores


def is_pathological(alpha: float) -> bool:
    return alpha == 0


def is_moderate(alpha: float) -> bool:
    return alpha >= MODERATE
