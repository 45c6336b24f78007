"""Colours, dashes and the order of the legend, the same in the page and in the figures.

The colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart, without their yellow
(invisible on white) and with a wine red and a grey instead; for the dark page they are lighter. Each curve has a dash
as well; dashes repeat after another number of curves than colours, so that no two of 24 curves look alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from driftless.report.curves import Curve
from driftless.report.grid import Grid
from driftless.report.metrics import Metric
from driftless.report.summary import BASELINE, counted, final, rank

LIGHT = ("#1f1f1f", "#0072b2", "#d55e00", "#009e73", "#b8518f", "#cf8a00", "#3aa0dc", "#882255", "#7a7a7a")
DARK = ("#ececec", "#58aee8", "#ff8a3d", "#2fc99b", "#e79bc8", "#f2b632", "#9ad4f7", "#d6608f", "#9a9a9a")
DASHES: tuple[tuple[float, ...], ...] = ((), (7, 3), (2, 2.5), (8, 3, 2, 3), (12, 4), (5, 2, 2, 2, 2, 2))


class Style(NamedTuple):
    color: int
    """Index into LIGHT and DARK."""
    dash: tuple[float, ...]
    """Lengths drawn and left out, in pixels or points; empty: solid."""


def styles(curves: Sequence[Curve], grid: Grid | None = None) -> list[Style]:
    """Of a sweep, the colour is that of the algorithm and the dash that of the cell, where there are enough of both."""
    if grid is None or len(grid.names) >= len(LIGHT) or len(grid.cells) > len(DASHES):
        return one_by_one(curves)
    first = [next(curves[i] for i in row if i is not None) for row in grid.curves]
    place = {i: (name, cell) for name, row in enumerate(grid.curves) for cell, i in enumerate(row) if i is not None}
    colors = [style.color for style in one_by_one(first)]
    return [Style(colors[place[i][0]], DASHES[place[i][1]]) for i in range(len(curves))]


def one_by_one(curves: Sequence[Curve]) -> list[Style]:
    """FedAvg, which all others are measured by, has the colour of the text; each further curve takes the next style."""
    chosen: list[Style] = []
    inked, taken = False, 0
    for curve in curves:
        if curve.algorithm == BASELINE and not inked:
            inked = True
            chosen.append(Style(0, ()))
            continue
        chosen.append(Style(1 + taken % (len(LIGHT) - 1), DASHES[taken % len(DASHES)]))
        taken += 1
    return chosen


def legend_order(curves: Sequence[Curve], metric: Metric) -> list[int]:
    """The positions of the curves in the order of their final values, the best first."""
    ranks = [rank(final(counted(curve), metric.key), metric) for curve in curves]
    return sorted(range(len(curves)), key=lambda i: ranks[i])
