"""The cost tables of all papers beside the same numbers derived from our algorithms, under each paper's convention."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from driftless.papers.adabest import tables_4_5 as adabest
from driftless.papers.fedgbo import costs as fedgbo
from driftless.papers.ghbm import table_4 as ghbm
from driftless.reproduce.costs import TOLERANCE, CostCell, Reasons

DIFFERENCES: Reasons = {**adabest.DIFFERENCES, **fedgbo.DIFFERENCES, **ghbm.DIFFERENCES}
"""Every cell that differs by more than TOLERANCE, and why."""


def comparison(algorithms: Sequence[str] = ()) -> list[CostCell]:
    """Every cell of the papers' cost tables, or those of some algorithms."""
    cells = (*adabest.cost_comparison(), *fedgbo.cost_comparison(), *ghbm.cost_comparison())
    return [cell for cell in cells if not algorithms or cell.algorithm in algorithms]


def rich_comparison(compared: Sequence[CostCell]) -> Table:
    """One line a cell, derived under the paper's convention."""
    table = Table("table", "algorithm", "column", box=None, padding=(0, 1))
    for title in ("printed", "derived", "ratio"):
        table.add_column(title, justify="right")
    table.add_column("why they differ")
    for cell in compared:
        ratio = "-" if cell.ratio is None else f"{cell.ratio:.3f}"
        table.add_row(*cell[:3], f"{cell.printed:.4g}", f"{cell.derived:.4g}", ratio, cell.difference)
    return table


def rich_summary(compared: Sequence[CostCell]) -> Table:
    """One line a table: how many of its cells agree."""
    table = Table("table", box=None, padding=(0, 1))
    for title in ("cells", "agree"):
        table.add_column(title, justify="right")
    for name in dict.fromkeys(cell.table for cell in compared):
        agree = [cell.agrees for cell in compared if cell.table == name]
        table.add_row(name, str(len(agree)), str(sum(agree)))
    table.caption = f"agree: derived and printed differ by at most {TOLERANCE:.0%}"
    table.caption_justify = "left"
    return table
