"""Figures of experiments: panels of lines, drawn the same way for every paper."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from driftless.report.line_styles import DASHES, LIGHT
from driftless.report.metrics import AXES, metric
from driftless.reproduce.experiment import Place
from driftless.reproduce.outcome import Measure, Outcome, label, mean_of, std_of

ACROSS = 3
"""Panels beside each other."""
MOST_POINTS = 400
MOST_TICKS = 8


class Line(NamedTuple):
    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False
    marks: bool = False
    """Points at the values: for a handful of settings, not for rounds."""


class Heat(NamedTuple):
    """A grid of numbers: `values[row][column]`."""

    title: str
    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float]]


def curves(
    outcome: Outcome, key: str, by: str | None = None, log: bool = False, axis: str = "rounds", **at: Place
) -> list[Panel]:
    """A metric over the rounds, one line a cell; a panel for each value of the place `by`."""
    panels: list[Panel] = []
    for value in outcome.places(by, **at) if by else [None]:
        chosen = outcome.pick(**{**at, **place_of(by, value)})
        lines = []
        for one in chosen:
            if not any(key in run.metrics for run in one.runs):
                continue
            x, y, std = thinned(*one.curve(key, axis))
            y, std = in_per_cent(key) * y, in_per_cent(key) * std
            name = label({k: v for k, v in one.cell.at.items() if k != by and k not in at})
            lines.append(Line(name, x.tolist(), y.tolist(), std.tolist() if len(one.runs) > 1 else None))
        if lines:
            title = metric(key).title + (" (%)" if in_per_cent(key) != 1 else "")
            panels.append(Panel(place_text(by, value), AXES[axis].name, title, tuple(lines), log_y=log))
    return panels


def sweep(
    outcome: Outcome, x: str, measure: Measure, line: str = "algorithm", by: str | None = None, log_x: bool = False,
    log_y: bool = False, **at: Place,
) -> list[Panel]:  # fmt: skip
    """A measure over the numbers at place `x`, one line for each value of the place `line`."""
    panels: list[Panel] = []
    for value in outcome.places(by, **at) if by else [None]:
        where = {**at, **place_of(by, value)}
        lines = []
        for name in outcome.places(line, **where):
            points = [one for one in outcome.pick(**{**where, line: name}) if x in one.cell.at]
            values = [measure(one) for one in points]
            deviations = [std_of(each) for each in values]
            spread = [std or 0.0 for std in deviations] if any(deviations) else None
            places = [float(one.cell.at[x]) for one in points]
            lines.append(Line(place_text(line, name), places, [mean_of(each) for each in values], spread))
        panels.append(Panel(place_text(by, value), x, measure.title, tuple(lines), log_x, log_y, marks=True))
    return panels


def in_per_cent(key: str) -> int:
    """Accuracies are drawn in the unit of the tables."""
    return 100 if "accuracy" in key or key.startswith(("test_p", "personal_p")) else 1


def place_of(name: str | None, value: Place | None) -> dict[str, Place]:
    return {} if name is None or value is None else {name: value}


def place_text(name: str | None, value: Place | None) -> str:
    return label({name: value}) if name is not None and value is not None else ""


def thinned(x: Any, y: Any, std: Any) -> tuple[Any, Any, Any]:
    step = max(1, len(x) // MOST_POINTS)
    return x[::step], y[::step], std[::step]


def draw(panels: Sequence[Panel | Heat], file: Path, title: str = "") -> None:
    """A PNG; matplotlib is slow to import, so only here."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    across = 2 if len(panels) == 4 else min(ACROSS, len(panels))
    down = math.ceil(len(panels) / across)
    figure = Figure(figsize=(4.2 * across, 3.2 * down + 0.3), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    like: dict[str, Any] = {}
    order = order_of_labels(panels)
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(down, across, place + 1, sharey=like.get(panel.y))
        if "(%)" in panel.y and isinstance(panel, Panel):  # norms may differ by orders of magnitude, shares do not
            like.setdefault(panel.y, axes)
        if isinstance(panel, Heat):
            draw_heat(axes, panel)
        else:
            draw_lines(axes, panel, order)
        axes.set_title(panel.title, fontsize=9)
        axes.set_xlabel(panel.x, fontsize=8)
        axes.set_ylabel(panel.y, fontsize=8)
        axes.tick_params(which="both", labelsize=7)
    if title:
        figure.suptitle(title, fontsize=10)
    file.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    # A palette makes the files that are committed a third as large. By default it merges the colours of thin lines.
    Image.open(drawn).convert("RGB").quantize(method=Image.Quantize.FASTOCTREE).save(file, optimize=True)


def order_of_labels(panels: Iterable[Panel | Heat]) -> dict[str, int]:
    """A label has the same colour in all panels."""
    lines = (line for panel in panels if isinstance(panel, Panel) for line in panel.lines)
    return {label: place for place, label in enumerate(dict.fromkeys(line.label for line in lines))}


def draw_lines(axes: Any, panel: Panel, order: Mapping[str, int]) -> None:
    for line in panel.lines:
        place = order[line.label]
        color, dash = LIGHT[place % len(LIGHT)], DASHES[place % len(DASHES)]
        style = {"color": color, "linewidth": 1.2, "marker": "o" if panel.marks else None, "markersize": 3}
        (drawn,) = axes.plot(line.x, line.y, label=line.label, **style)
        if dash:
            drawn.set_dashes([length / 2 for length in dash])
        if line.spread is not None:
            y, spread = np.asarray(line.y), np.asarray(line.spread)
            low, high = y - spread, y + spread
            if "(%)" in panel.y:  # a share stays one
                low, high = np.clip(low, 0, 100), np.clip(high, 0, 100)
            axes.fill_between(line.x, low, high, color=color, alpha=0.15, linewidth=0)
    if panel.log_x:
        axes.set_xscale("log")
        places = sorted({value for line in panel.lines for value in line.x})
        if panel.marks and len(places) <= MOST_TICKS:  # the values themselves: powers of ten say nothing about them
            axes.set_xticks(places, [f"{value:g}" for value in places])
            axes.minorticks_off()
    positive = [value for line in panel.lines for value in line.y if value > 0]
    if panel.log_y and positive:
        axes.set_yscale("log")
    if len(panel.lines) > 1 or (panel.lines and panel.lines[0].label):
        axes.legend(fontsize=6, frameon=False)


def draw_heat(axes: Any, heat: Heat) -> None:
    axes.imshow(np.asarray(heat.values, dtype=np.float64), cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(heat.columns)), heat.columns)
    axes.set_yticks(range(len(heat.rows)), heat.rows)
    for i, row in enumerate(heat.values):
        for j, value in enumerate(row):
            text = "-" if not math.isfinite(value) else f"{value:.3g}"
            axes.text(j, i, text, ha="center", va="center", fontsize=6, color="white",
                      bbox={"facecolor": "black", "alpha": 0.3, "linewidth": 0, "pad": 1})  # fmt: skip
