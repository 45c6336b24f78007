"""The numbers that the page's charts draw, as JSON that is embedded in the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftless.report.curves import Band, Curve, band, is_wide, metrics_of
from driftless.report.line_styles import Style
from driftless.report.metrics import AXES, PANELS, metric
from driftless.report.notes import all_diverged
from driftless.report.partition import Partition
from driftless.report.summary import Summary

POINTS = 1000
"""Rounds that are drawn of a curve; more cannot be seen and would make the page heavy."""
DIGITS = 6


def chart_data(summary: Summary, styles: Sequence[Style], divisions: Sequence[Partition]) -> dict[str, Any]:
    """What page.js reads. Curves of one metric often share their rounds, so x values are stored once, as grids."""
    curves = summary.curves
    keys = metrics_of(curves)
    grids: list[dict[str, list[float | None]]] = []
    known: dict[tuple[Any, ...], int] = {}
    series = {key: [series_of(curve, key, grids, known) for curve in curves] for key in keys}
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
        "metrics": {key: metric_info(key, series[key]) for key in keys},
        "axes": {key: axis.name for key, axis in AXES.items() if any(v is not None for g in grids for v in g[key])},
        "panels": [key for key in PANELS if key in keys],
        "target": summary.targets[0].value if len(summary.targets) == 1 else None,
        "headline": summary.headline.key if summary.headline else (keys[0] if keys else None),
        "grids": grids,
        "series": series,
        "partitions": [None if p.counts is None else p.counts.T.tolist() for p in divisions],
    }


def series_of(
    curve: Curve, key: str, grids: list[dict[str, list[float | None]]], known: dict[tuple[Any, ...], int]
) -> dict[str, Any] | None:
    found = band(curve, key)
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


def rounded(values: Any) -> list[float | None]:
    """JSON has no NaN and no infinity; six figures are more than a screen can show."""
    return [float(f"{v:.{DIGITS}g}") if math.isfinite(v) else None for v in values.tolist()]


def metric_info(key: str, series: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    described = metric(key)
    values = [v for one in series if one for v in one["mean"] if v is not None]
    return {"name": described.name, "title": described.title, "group": described.group, "log": is_wide(values)}
