"""All degrees of heterogeneity: what figures 3 and 6 share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from driftless.papers.ghbm.measures import QUALITY, Scores
from driftless.reproduce.experiment import Cell
from driftless.reproduce.figure import Panel, sweep
from driftless.reproduce.outcome import Outcome, Result

ALPHAS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 10.0, 10_000.0)
"""The ends are those of the text; the degrees between them are only drawn, and these are ours."""
SMALL_ALPHAS = (0.0, 0.5, 10_000.0)
SWEPT = ("FedAvg", "FedAvgM", "SCAFFOLD", "MimeMom", "FedHBM")
ABOUT_ALPHA = "CIFAR-10, 10 of 100 clients a round, from one class a client (α = 0) to iid (α = 10,000). "


def alpha_cells(cell: Callable[..., Cell], tasks: Sequence[str], alphas: Sequence[float]) -> tuple[Cell, ...]:
    return tuple(
        cell(alpha=alpha, name=name, task=task, at={"data": task, "alpha": alpha, "algorithm": name})
        for task in tasks
        for alpha in alphas
        for name in SWEPT
    )


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
    return [Panel(p.title, "α (0 is drawn at 0.01)", y, p.lines, True, marks=True) for p in panels]


def scores_at(outcome: Outcome, lowest: bool) -> Iterator[tuple[str, Scores]]:
    """At the smallest α of each data set, or at all others."""
    for task in outcome.places("data"):
        part = outcome.part(data=task)
        alphas = sorted(float(value) for value in part.places("alpha"))
        for alpha in alphas[:1] if lowest else alphas[1:]:
            results = part.pick(alpha=alpha)
            yield f"{task}, α={alpha:g}", {str(one.cell.at["algorithm"]): outcome.measured(one) for one in results}
