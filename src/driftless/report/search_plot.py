"""A picture of a search: the objective over the trials, and over each parameter."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftless.errors import InputError
from driftless.runs.files import write_atomically
from driftless.tune.space import Choices, Dimension, Range

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from driftless.tune.search import Outcome
    from driftless.tune.study import TrialResult

SEARCH = "search.png"
COLUMNS, MARGIN = 3, 0.05
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#7a7a7a"
LOOKS: dict[str, dict[str, Any]] = {
    "finished": {"marker": "o", "color": BLUE, "alpha": 0.8, "linewidths": 0},
    "pruned": {"marker": "o", "facecolors": "none", "edgecolors": BLUE, "linewidths": 0.9},
    "diverged": {"marker": "x", "color": GREY, "linewidths": 1.0},
}
STYLE: Any = {
    "font.size": 8, "axes.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.linewidth": 0.4, "grid.color": "#dddddd", "axes.axisbelow": True, "legend.frameon": False, "savefig.dpi": 200,
}  # fmt: skip


def write_search_plot(outcome: Outcome, path: Path | None = None) -> Path:
    """Write the picture, by default as search.png into the study's folder."""
    from matplotlib import style
    from matplotlib.figure import Figure

    shown = [trial for trial in outcome.trials if trial.state in LOOKS]
    if not shown:
        raise InputError(f"no trial of '{outcome.folder}' has ended yet, so there is nothing to draw; let one end.")
    path = path or outcome.folder / SEARCH
    space = outcome.plan.space
    columns, rows = min(COLUMNS, len(space)), 1 + math.ceil(len(space) / COLUMNS)
    with style.context(STYLE, after_reset=True):  # a user's own style must not change what is written
        figure = Figure(figsize=(max(2.6 * columns, 4.5), 2.2 * rows), layout="constrained")
        grid = figure.add_gridspec(rows, columns)
        first = figure.add_subplot(grid[0, :])
        draw_trials(first, outcome, shown)
        for i, (key, dim) in enumerate(space.items()):
            axes = figure.add_subplot(grid[1 + i // columns, i % columns], sharey=first)
            draw_parameter(axes, outcome, shown, key, dim)
            axes.set_ylabel(outcome.measure if i % columns == 0 else "")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())
    return path


def draw_trials(axes: Axes, outcome: Outcome, trials: Sequence[TrialResult]) -> None:
    from matplotlib.ticker import MaxNLocator

    scatter(axes, outcome, trials, [trial.number for trial in trials], legend=True)
    finished = [trial for trial in trials if trial.state == "finished"]
    if finished:
        best = list(itertools.accumulate((height(outcome, trial, 0.0) for trial in finished), better(outcome)))
        # The last trials may have been pruned: the line goes on to the end.
        numbers = [*(trial.number for trial in finished), trials[-1].number]
        axes.step(numbers, [*best, best[-1]], where="post", color=ORANGE, linewidth=1, label="best so far")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("trial")
    axes.set_ylabel(outcome.measure)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)


def draw_parameter(axes: Axes, outcome: Outcome, trials: Sequence[TrialResult], key: str, dim: Dimension) -> None:
    values = [trial.params[key] for trial in trials]
    if isinstance(dim, Choices):
        # Side by side: numbers such as 0.9, 0.96 and 0.98 would hide one another's labels on an axis of their own.
        places = {value: i for i, value in enumerate(sorted(dim.values, key=in_order))}
        axes.set_xticks(range(len(places)), [f"{v:g}" if isinstance(v, float) else str(v) for v in places])
        axes.set_xlim(-0.5, len(places) - 0.5)
        values = [places[value] for value in values]
    else:
        scale(axes, dim)
    scatter(axes, outcome, trials, [float(value) for value in values])
    axes.set_xlabel(key)


def in_order(value: object) -> float:
    """Numbers by size, everything else as it was given."""
    return float(value) if isinstance(value, int | float) else 0.0


def scale(axes: Axes, dim: Range) -> None:
    """The whole range, also where no trial was; ticks at 0.1, 1, 10."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = dim.low, dim.high
    if dim.log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high >= 100 * low else (1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        pad = (high / low) ** MARGIN
        axes.set_xlim(low / pad, high * pad)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=dim.whole))
        axes.set_xlim(low - MARGIN * (high - low), high + MARGIN * (high - low))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def scatter(
    axes: Axes, outcome: Outcome, trials: Sequence[TrialResult], x: Sequence[float], legend: bool = False
) -> None:
    """One kind of mark for each state, a ring around the best."""
    floor = worst(outcome, trials)
    for state, look in LOOKS.items():
        points = [(at, trial) for at, trial in zip(x, trials, strict=True) if trial.state == state]
        if points:
            heights = [height(outcome, trial, floor) for _, trial in points]
            axes.scatter(
                [at for at, _ in points], heights, s=22, label=state if legend else None, clip_on=False, **look
            )
    for at, trial in zip(x, trials, strict=True):
        if outcome.best and trial.number == outcome.best.number:
            ring: dict[str, Any] = {"s": 70, "facecolors": "none", "edgecolors": ORANGE, "linewidths": 1.3}
            axes.scatter([at], [height(outcome, trial, floor)], label="best" if legend else None, **ring)


def height(outcome: Outcome, trial: TrialResult, instead: float) -> float:
    shown = outcome.shown(trial.value)
    return instead if shown is None else shown


def better(outcome: Outcome) -> Callable[[float, float], float]:
    return min if outcome.plan.objective == "validation_loss" else max


def worst(outcome: Outcome, trials: Sequence[TrialResult]) -> float:
    """Where trials without a value are drawn: at the bad edge of the others."""
    values = [shown for trial in trials if (shown := outcome.shown(trial.value)) is not None]
    return (min if better(outcome) is max else max)(values, default=0.0)
