"""The cells of a sweep, found in the settings of curves: which keys were swept, and what was compared in each cell.

A key is swept when the comparison that a run belongs to was told so (`sweep.run.cohort=[5,50]`), or when it describes
data or model and differs between curves of the same name; in both cases only if it differs between the curves given.
Settings that an algorithm or a variant has for itself, such as a learning rate of its own, make no cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from driftless.compare import cell_name, read_options
from driftless.report.curves import Curve
from driftless.report.settings import Settings, differences, labels, option_defaults

if TYPE_CHECKING:
    from driftless.report.summary import Row, Summary

PROBLEM = ("data.", "model.")
Number = TypeVar("Number")


class Cell(NamedTuple):
    name: str
    """ "alpha=0.1,cohort=5"; empty when nothing was swept."""
    values: Settings
    """By swept key."""
    curves: tuple[Curve, ...]
    """With the labels that they need within the cell: "fedavg", not "fedavg data.alpha=0.1"."""
    full_labels: tuple[str, ...]
    """What the same curves are called among those of all cells."""


def cells_of(curves: Sequence[Curve]) -> list[Cell]:
    """The curves parted into cells, in the order of the swept values; one cell if nothing was swept."""
    keys = swept_keys(curves)
    order = {key: positions([value_of(curve, key) for curve in curves]) for key in keys}
    inside: dict[tuple[int, ...], list[Curve]] = {}
    for curve in curves:
        place = tuple(order[key][repr(value_of(curve, key))] for key in keys)
        inside.setdefault(place, []).append(curve)
    return [cell_of(inside[place], keys) for place in sorted(inside)]


def swept_keys(curves: Sequence[Curve]) -> list[str]:
    """In the order in which they were given; then those of data and model."""
    folders = dict.fromkeys(run.comparison for curve in curves for run in curve.runs)
    planned = [key for folder in folders if folder for key in read_options(folder).sweep]
    found = [key for key in dict.fromkeys(planned) if differs(curves, key)]
    same_name = [[each for each in curves if each.name == name] for name in dict.fromkeys(c.name for c in curves)]
    for key in differences([curve.settings for curve in curves]):
        if key.startswith(PROBLEM) and key not in found and any(differs(same, key) for same in same_name):
            found.append(key)
    return found


def differs(curves: Sequence[Curve], key: str) -> bool:
    return any(value_of(curve, key) != value_of(curves[0], key) for curve in curves)


def value_of(curve: Curve, key: str) -> Any:
    """Options at their defaults are not among a curve's settings."""
    return curve.settings[key] if key in curve.settings else option_defaults(curve.settings).get(key)


def positions(values: Sequence[Any]) -> dict[str, int]:
    """Numbers by their size, anything else as it comes."""
    distinct = {repr(value): value for value in values}
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in distinct.values()):
        distinct = dict(sorted(distinct.items(), key=lambda item: item[1]))
    return {text: position for position, text in enumerate(distinct)}


def cell_of(curves: Sequence[Curve], keys: Sequence[str]) -> Cell:
    values = {key: value_of(curves[0], key) for key in keys}
    names = labels([curve.algorithm for curve in curves], [curve.settings for curve in curves])
    inside = tuple(replace(curve, label=name) for curve, name in zip(curves, names, strict=True))
    return Cell(cell_name(values), values, inside, tuple(curve.label for curve in curves))


def matrix(summary: Summary, value: Callable[[Row], Number]) -> dict[str, dict[str, Number | None]]:
    """value[name of an algorithm or variant][name of a cell], for example of `lambda row: row.last`.

    The names are in the order in which they first occur; None where there is no such run.
    """
    found = {cell.name: {row.label: value(row) for row in part.rows} for cell, part in summary.parts}
    names = dict.fromkeys(curve.label for cell, _ in summary.parts for curve in cell.curves)
    return {name: {cell: rows.get(name) for cell, rows in found.items()} for name in names}
