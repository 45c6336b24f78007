"""Experiments about printed costs: what Tables 2, 4, 9 and 10 share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from driftless.papers.fedgbo.costs import cost_comparison
from driftless.reproduce.checks import Check, exact
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.figure import Heat
from driftless.reproduce.outcome import Outcome


def cost_study(tables: Sequence[str]) -> dict[str, Any]:
    """Printed and derived numbers of some tables."""
    cells = [cell for cell in cost_comparison() if cell.table in tables]
    return {
        "cells": [
            {"table": cell.table, "algorithm": cell.algorithm, "column": cell.column, "printed": cell.printed,
             "derived": cell.derived, "agrees": cell.agrees, "why": cell.difference}
            for cell in cells
        ]
    }  # fmt: skip


def derived(outcome: Outcome, algorithm: str, column: str, table: str | None = None) -> float:
    """From our own algorithms, never the printed number."""
    return next(
        float(one["derived"]) for one in outcome.values["cells"]
        if one["algorithm"] == algorithm and one["column"] == column and table in (None, one["table"])
    )  # fmt: skip


def printed_numbers(outcome: Outcome) -> Iterable[Check]:
    """Of the last table; those that differ first, with the reason."""
    table = outcome.values["cells"][-1]["table"]
    cells = [one for one in outcome.values["cells"] if one["table"] == table]
    for one in sorted(cells, key=lambda one: one["agrees"]):
        text = f"{one['algorithm']}, {one['column']}: {one['derived']:.4g} derived, {one['printed']:.4g} printed"
        yield exact(f"{text} ({one['why']})" if one["why"] else text, one["agrees"])


def derived_over_printed(one: Mapping[str, Any]) -> float:
    return one["derived"] / one["printed"]


def derived_number(one: Mapping[str, Any]) -> float:
    return one["derived"]


def heat_maps(title: str, of: Callable[[Mapping[str, Any]], float]) -> Callable[[Outcome], list[Heat]]:
    """One a table: "CIFAR100, sgdm" stands in column CIFAR100 and the algorithm's row sgdm."""

    def panels(outcome: Outcome) -> Iterator[Heat]:
        for table in dict.fromkeys(one["table"] for one in outcome.values["cells"]):
            values: dict[str, dict[str, float]] = {}
            for one in outcome.values["cells"]:
                if one["table"] == table:
                    column, _, optimiser = one["column"].partition(", ")
                    values.setdefault(f"{one['algorithm']} {optimiser}".strip(), {})[column] = of(one)
            columns = list(dict.fromkeys(column for line in values.values() for column in line))
            numbers = [[line.get(column, math.nan) for column in columns] for line in values.values()]
            yield Heat(f"{table.removeprefix('FedGBO ')}: {title}", "", "", columns, list(values), numbers)

    return lambda outcome: list(panels(outcome))


DERIVED_MAP = heat_maps("derived", derived_number)
"""Tables of small whole numbers, where all or nearly all agree."""
RATIO_MAP = heat_maps("derived / printed", derived_over_printed)
PRINTED = Claim(
    "printed",
    "The printed numbers follow from the algorithms.",
    "Every number of the table, derived from our algorithms under the paper's convention, is within 2 % of the printed "
    "one.",
    printed_numbers,
)


def cost_table(
    name: str, tables: Sequence[str], figure: Callable[[Outcome], list[Heat]], title: str, where: str, about: str,
    *claims: Claim,
) -> Experiment:  # fmt: skip
    setup = Setup(options={"tables": list(tables)})
    printed = replace(PRINTED, paper=where.partition(",")[0])
    return Experiment(
        name=name, title=title, where=where, about=about, paper=setup, small=setup, claims=(printed, *claims),
        figure=figure, study=cost_study, kind="count", smoke_options=setup.options,
    )  # fmt: skip
