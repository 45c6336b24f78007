"""The last and the best values of a run as a short text: for `print(result)`, a notebook and the command line."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table

from driftless.engine.metrics import METRICS

WIDTH = 80
MEASURED = re.compile(r"(test|validation|client|personal)_(.+)")
PERCENTILE = re.compile(r"(.+_)?p\d+")

Row = Mapping[str, Any]


def heading(name: str, rows: Sequence[Row]) -> str:
    """ "adabest: 60 rounds in 12.3 s, evaluated in 1.2 s, 45.6 MB sent, norm of the model 21.2"."""
    sent = sum(row.get("bytes_down", 0) + row.get("bytes_up", 0) for row in rows) / 1e6
    seconds, evaluation = (sum(row.get(name, 0.0) for row in rows) for name in ("seconds", "evaluation_seconds"))
    norm = column(rows, "norm_x")[-1:]
    parts = [f"{len(rows)} round{'s' if len(rows) != 1 else ''} in {seconds:.1f} s"]
    parts += [f"evaluated in {evaluation:.1f} s", f"{sent:.1f} MB sent"]
    return f"{name}: {', '.join([*parts, *(f'norm of the model {value:.4g}' for value in norm)])}"


def final_table(rows: Sequence[Row]) -> Table:
    """A line for each loss and metric that was measured: its last value and, where it is clear, its best."""
    table = Table("", box=None, pad_edge=False)
    for title in ("final", "best"):
        table.add_column(title, justify="right")
    for name in measured(rows):
        values = column(rows, name)
        table.add_row(name.replace("_", " "), f"{values[-1]:.4g}", best_text(name, values))
    return table


def measured(rows: Sequence[Row]) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row)
    found = {name: MEASURED.fullmatch(name) for name in names}
    shown = [name for name, match in found.items() if match and not PERCENTILE.fullmatch(match[2])]
    return ["train_loss", *shown] if "train_loss" in names else shown


def best_text(name: str, values: Sequence[float]) -> str:
    """Empty for what is good neither high nor low, as far as is known."""
    higher = higher_is_better(name.partition("_")[2])
    return "" if higher is None else f"{(max if higher else min)(values):.4g}"


def higher_is_better(metric: str) -> bool | None:
    if metric == "loss":
        return False
    return next((each.higher_is_better for each in METRICS.values() if each.column == metric), None)


def column(rows: Sequence[Row], name: str) -> list[float]:
    return [row[name] for row in rows if name in row]


def final_text(name: str, rows: Sequence[Row], notices: Iterable[str] = ()) -> str:
    """Heading, table and notices, in plain text of 80 columns."""
    table = plain_text(final_table(rows)).splitlines() if measured(rows) else []
    return "\n".join([heading(name, rows), *table, *notices])


def plain_text(*tables: RenderableType, width: int = WIDTH) -> str:
    """As a terminal shows them, without colours, also in a notebook."""
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False, force_jupyter=False, no_color=True).print(*tables, sep="\n")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
