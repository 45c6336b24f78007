"""The numbers that the page's charts draw, as JSON that is embedded in the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from driftless.report.curves import Band, Curve, band, metrics_of
from driftless.report.grid import Grid
from driftless.report.line_styles import Style, legend_order
from driftless.report.metrics import AXES, PANELS, Metric
from driftless.report.notes import all_diverged
from driftless.report.partition import Partition
from driftless.report.summary import Spread, Summary, counted, final
from driftless.report.view_range import View, view_of

POINTS = 1000
"""Rounds that are drawn of a curve; more cannot be seen and would make the page heavy."""
DIGITS = 6


def chart_data(
    summary: Summary, styles: Sequence[Style], divisions: Sequence[Partition], grid: Grid | None = None
) -> dict[str, Any]:
    """What the page's scripts read. Curves often share their rounds, so x values are stored once, as grids."""
    curves = summary.curves
    keys = metrics_of(curves)
    grids: list[dict[str, list[float | None]]] = []
    known: dict[tuple[Any, ...], int] = {}
    bands = {key: [band(curve, key) for curve in curves] for key in keys}
    views = {key: view_of(curves, bands[key]) for key in keys}
    series = {
        key: [series_of(found, views[key], i, grids, known) for i, found in enumerate(bands[key])] for key in keys
    }
    axes = {key: axis for key, axis in AXES.items() if any(v is not None for g in grids for v in g[key])}
    return {
        "curves": [
            {
                "label": curve.label,
                "color": style.color,
                "dash": style.dash,
                "seeds": len(curve.runs),
                "diverged": all_diverged(curve),
            }
            for curve, style in zip(curves, styles, strict=True)
        ],
        "metrics": {key: metric_info(summary.described(key), curves, views[key]) for key in keys},
        "axes": {key: {"name": axis.name, "short": axis.short} for key, axis in axes.items()},
        "panels": [key for key in PANELS if key in keys],
        "target": summary.targets[0].value if len(summary.targets) == 1 else None,
        "headline": summary.headline.key if summary.headline else (keys[0] if keys else None),
        "grids": grids,
        "series": series,
        "sweep": grid and grid._asdict(),
        "partitions": [None if p.counts is None else p.counts.T.tolist() for p in divisions],
    }


def series_of(
    found: Band | None, view: View, curve: int, grids: list[dict[str, list[float | None]]],
    known: dict[tuple[Any, ...], int],
) -> dict[str, Any] | None:  # fmt: skip
    if found is None:
        return None
    found = thinned(found)
    x = {axis: rounded(values) for axis, values in found.x.items()}
    identity = tuple(tuple(values) for values in x.values())
    if identity not in known:
        known[identity] = len(grids)
        grids.append(x)
    seeds = found.seeds.tolist()
    return {
        "grid": known[identity],
        "mean": rounded(found.mean),
        "std": rounded(found.std) if max(seeds) > 1 else 0,
        "seeds": seeds if len(set(seeds)) > 1 else seeds[0],
        "range": view.ranges[curve],
        "far": view.far[curve],
    }


def thinned(found: Band) -> Band:
    """At most POINTS rounds, evenly, the first and the last among them."""
    if len(found.rounds) <= POINTS:
        return found
    kept = np.unique(np.linspace(0, len(found.rounds) - 1, POINTS).round().astype(np.int64))
    x = {axis: values[kept] for axis, values in found.x.items()}
    return Band(found.rounds[kept], found.mean[kept], found.std[kept], found.seeds[kept], x)


def is_thinned(curves: Sequence[Curve]) -> bool:
    return any(len(run.rounds) > POINTS for curve in curves for run in curve.runs)


def rounded(values: Iterable[float]) -> list[float | None]:
    """JSON has no NaN and no infinity; six figures are more than a screen can show."""
    return [float(f"{v:.{DIGITS}g}") if math.isfinite(v) else None for v in values]


def metric_info(described: Metric, curves: Sequence[Curve], view: View) -> dict[str, Any]:
    return {
        "name": described.name,
        "title": described.title,
        "group": described.group,
        "better": described.better,
        "log": view.log,
        "order": legend_order(curves, described),
        "finals": [final_info(final(counted(curve), described.key), described.scale) for curve in curves],
    }


def final_info(value: Spread | None, scale: float) -> dict[str, float | None] | None:
    return value and {"mean": value.mean * scale, "std": None if value.std is None else value.std * scale}
