"""Figures for a paper, one column wide; the same runs give the same bytes."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from driftless.errors import InputError, check_choice
from driftless.report import line_styles
from driftless.report.curves import Curve, band
from driftless.report.grid import Grid, grid_of
from driftless.report.line_styles import Style
from driftless.report.metrics import AXES, metric, percentile_keys
from driftless.report.partition import Partition, partitions
from driftless.report.summary import Spread, Summary, counted, final, summarise
from driftless.report.view_range import Range, beyond, view_of, with_room
from driftless.runs.directory import StoredRun
from driftless.runs.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 3.3
"""Inches: the column of a two-column paper."""
FORMATS = ("pdf", "svg", "png")
NO_DATE = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
STYLE: Any = {
    "font.size": 8, "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7,
    "axes.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.linewidth": 0.4, "grid.color": "#dddddd", "axes.axisbelow": True, "lines.linewidth": 1.2,
    "legend.frameon": False, "legend.handlelength": 2.4, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "savefig.dpi": 300,
    "lines.scale_dashes": False,  # dashes are given in points, as in the page
    "pdf.fonttype": 42,  # TrueType: type 3 fonts are refused by many publishers
    "svg.hashsalt": "driftless",  # ids of the file that do not change from one writing to the next
}  # fmt: skip


class Drawing(NamedTuple):
    name: str
    """Of the file, without its suffix."""
    height: float
    """Inches."""
    draw: Callable[[Axes], None]
    legend: bool = True


def write_figures(
    runs: Sequence[StoredRun], directory: Path, formats: Sequence[str] = FORMATS, target: float | None = None, *,
    overwrite: bool = False,
) -> list[Path]:  # fmt: skip
    """Write every figure that these runs have numbers for, in every format; the paths, in the order of the figures."""
    if isinstance(formats, str) or not formats:
        raise InputError(
            f"formats must be a list such as ['pdf', 'png'], got {formats!r}; allowed: {', '.join(FORMATS)}."
        )
    for given in formats:
        check_choice("format of a figure", given, FORMATS)
    drawings = plan(summarise(runs, target))
    files = [directory / f"{drawing.name}.{suffix}" for drawing in drawings for suffix in formats]
    existing = [file for file in files if file.exists()]
    if existing and not overwrite:
        raise InputError(f"'{existing[0]}' exists; give another folder, or replace it: --overwrite (overwrite=True).")
    directory.mkdir(parents=True, exist_ok=True)
    for drawing in drawings:
        write(drawing, directory, formats)
    return files


def plan(summary: Summary) -> list[Drawing]:
    """Which figures there are."""
    curves, headline, grid = summary.curves, summary.headline, grid_of(summary)
    styles = line_styles.styles(curves, grid)
    drawings: list[Drawing] = []
    wanted = [(headline.key, axis) for axis in ("rounds", "megabytes")] if headline else []
    wanted += [("norm_x", "rounds"), ("cosine", "rounds")]
    for key, axis in wanted:
        found = [each for curve in curves if (each := band(curve, key)) is not None]
        if any(np.isfinite(each.x[axis]).any() for each in found):
            name = f"{key}-{axis}" if headline and key == headline.key else key
            how = partial(draw_curves, curves=curves, styles=styles, key=key, axis=axis)
            drawings.append(Drawing(name, 2.3, how))
    if grid and headline:
        drawings += sweep_drawings(summary, grid, headline.key)
    for keys in percentile_keys(key for curve in curves for key in curve.metrics()):
        fair = [curve for curve in curves if curve.metrics().issuperset(keys)]
        name, height = f"{keys[0].removesuffix('p5')}percentiles", 0.7 + 0.19 * len(fair)
        drawings.append(Drawing(name, height, partial(draw_percentiles, curves=fair, keys=keys), legend=False))
    divisions = [division for division in partitions(curves) if division.counts is not None]
    for number, division in enumerate(divisions, 1):
        name = "labels" if len(divisions) == 1 else f"labels-{number}"
        drawings.append(Drawing(name, 1.9, partial(draw_labels, division=division), legend=False))
    return drawings


def sweep_drawings(summary: Summary, grid: Grid, key: str) -> list[Drawing]:
    """A heat map of the final values, and the curves of each cell."""
    values = [[None if i is None else final(counted(summary.curves[i]), key) for i in row] for row in grid.curves]
    shown = view_of(summary.curves, [band(curve, key) for curve in summary.curves]).whole or Range(-math.inf, math.inf)
    how = partial(draw_heat_map, grid=grid, values=values, name=metric(key).title, shown=shown)
    drawings = [Drawing(f"{key}-cells", 0.8 + 0.3 * len(grid.names), how, legend=False)]
    for cell, _ in summary.parts:
        styles = line_styles.styles(cell.curves)
        how = partial(draw_curves, curves=cell.curves, styles=styles, key=key, axis="rounds")
        drawings.append(Drawing(f"{key}-{re.sub(r'[^a-zA-Z0-9.=,-]', '-', cell.name)}", 2.3, how))
    return drawings


def draw_heat_map(axes: Axes, grid: Grid, values: Sequence[Sequence[Spread | None]], name: str, shown: Range) -> None:
    """What was compared by the cells of the sweep, with the numbers in them."""
    numbers = np.array([[math.nan if value is None else value.mean for value in row] for row in values])
    image = axes.imshow(numbers, aspect="auto", cmap="Blues", interpolation="nearest")
    near = numbers[(numbers >= shown.low) & (numbers <= shown.high)]
    low, high = (float(near.min()), float(near.max())) if near.size else (0.0, 1.0)
    image.set_clim(low, high)  # a loss that diverged does not use up the colours
    for y, x in zip(*np.nonzero(np.isfinite(numbers)), strict=True):
        color = "w" if numbers[y, x] > (low + high) / 2 else "k"
        axes.text(x, y, f"{numbers[y, x]:.3g}", ha="center", va="center", fontsize=6, color=color)
    # A line for each setting: side by side the names of cells would overlap.
    axes.set_xticks(range(len(grid.cells)), [cell.replace(",", "\n") for cell in grid.cells])
    axes.set_yticks(range(len(grid.names)), grid.names)
    axes.grid(False)
    axes.set_title(f"final {name}", fontsize=7, loc="left")


def draw_curves(axes: Axes, curves: Sequence[Curve], styles: Sequence[Style], key: str, axis: str) -> None:
    """The legend in the order of the final values; the axis where the curves are."""
    bands = [band(curve, key) for curve in curves]
    view = view_of(curves, bands)
    for i in line_styles.legend_order(curves, metric(key)):
        found = bands[i]
        if found is None:
            continue
        color, dash = line_styles.LIGHT[styles[i].color], styles[i].dash
        dashes = (0, [0.6 * v for v in dash]) if dash else "solid"
        axes.plot(found.x[axis], found.mean, color=color, linestyle=dashes, label=curves[i].label)
        low, high = found.mean - found.std, found.mean + found.std
        if view.log:
            low = np.maximum(low, found.mean[found.mean > 0].min(initial=np.inf) / 10)
        axes.fill_between(found.x[axis], low, high, where=found.seeds > 1, color=color, alpha=0.15, linewidth=0)
    axes.set_xlabel(AXES[axis].name)
    axes.set_ylabel(metric(key).title)
    axes.set_yscale("log" if view.log else "linear")
    axes.set_xlim(left=0)
    if view.whole is None:
        return
    outside = beyond(curves, bands, view.whole)
    if outside:
        axes.set_ylim(*with_room(view.whole, view.log))
        axes.set_title(f"not in view: {', '.join(outside)}", fontsize=6, loc="left", wrap=True)


def draw_percentiles(axes: Axes, curves: Sequence[Curve], keys: Sequence[str]) -> None:
    """Final values over clients: a thin line from the 5th to the 95th percentile, a thick one in the middle."""
    for y, (curve, style) in enumerate(zip(curves, line_styles.styles(curves), strict=True)):
        p5, p25, p50, p75, p95 = (float(found.mean[-1]) for key in keys if (found := band(curve, key)))
        color = line_styles.LIGHT[style.color]
        axes.plot([p5, p95], [y, y], color=color, linewidth=0.9)
        axes.plot([p25, p75], [y, y], color=color, linewidth=3.6, solid_capstyle="butt")
        axes.plot([p50], [y], "o", color="white", markeredgecolor=color, markersize=3.6)
    axes.set_yticks(range(len(curves)), [curve.label for curve in curves])
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlabel(f"{metric(keys[0]).name.rpartition(',')[0]} over clients: 5, 25, 50, 75, 95 %")


def draw_labels(axes: Axes, division: Partition) -> None:
    from matplotlib.ticker import MaxNLocator

    assert division.counts is not None
    image = axes.imshow(division.counts.T, aspect="auto", cmap="Blues", interpolation="nearest", origin="lower")
    axes.grid(False)
    axes.set_xlabel("client")
    axes.set_ylabel("class")
    bar = axes.figure.colorbar(image, ax=axes, label="examples", pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(10, integer=True))


def write(drawing: Drawing, directory: Path, formats: Sequence[str]) -> None:
    from matplotlib import style

    with style.context(STYLE, after_reset=True):  # a user's own style must not change what is written
        figure = make(drawing)
        for suffix in formats:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix, metadata=NO_DATE[suffix])
            write_atomically(directory / f"{drawing.name}.{suffix}", buffer.getvalue())


def make(drawing: Drawing) -> Figure:
    """Without pyplot: nothing global is opened that would have to be closed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, drawing.height), layout="constrained")
    axes = figure.add_subplot()
    drawing.draw(axes)
    handles, labels = axes.get_legend_handles_labels() if drawing.legend else ([], [])
    if len(labels) > 1:
        columns = 1 if max(map(len, labels)) > 24 else 2 if max(map(len, labels)) > 12 else 3
        rows = -(-len(labels) // columns)
        figure.set_figheight(drawing.height + 0.14 * rows)  # the curves keep their height, however many there are
        figure.legend(handles, labels, loc="outside upper center", ncols=columns, columnspacing=1.0, labelspacing=0.25)
    return figure
