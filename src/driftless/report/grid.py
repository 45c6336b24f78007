"""The curves of a sweep as a grid: what was compared, by the cells in which it was compared."""

from __future__ import annotations

from typing import NamedTuple

from driftless.compare import value_text
from driftless.report.summary import Summary


class Grid(NamedTuple):
    keys: list[str]
    """The swept settings."""
    cells: list[str]
    """Their names."""
    values: list[list[str]]
    """By cell, of each swept setting."""
    names: list[str]
    """Of the algorithms and variants."""
    curves: list[list[int | None]]
    """[names, cells]: the position of the curve; None where there is no such run."""


def grid_of(summary: Summary) -> Grid | None:
    """None when nothing was swept."""
    cells = [cell for cell, _ in summary.parts]
    if not any(cell.values for cell in cells):
        return None
    position = {curve.label: i for i, curve in enumerate(summary.curves)}
    found = {
        (curve.label, number): position[full]
        for number, cell in enumerate(cells)
        for curve, full in zip(cell.curves, cell.full_labels, strict=True)
    }
    names = list(dict.fromkeys(name for name, _ in found))
    return Grid(
        list(cells[0].values),
        [cell.name for cell in cells],
        [[value_text(value) for value in cell.values.values()] for cell in cells],
        names,
        [[found.get((name, number)) for number in range(len(cells))] for name in names],
    )
