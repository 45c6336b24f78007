"""The summary as a table: for the terminal, Markdown, CSV and the page."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from driftless.report.metrics import Axis, Better
from driftless.report.summary import Cost, Row, Spread, Summary

if TYPE_CHECKING:
    from rich.table import Table

NOTHING = "–"
LARGE = 1e7
"""From here on, powers of ten are easier to read."""
COMPACT = ("label", "final", "best", "rounds", "megabytes", "norm", "failures", "diverged")
"""What fits into a terminal."""


class Cell(NamedTuple):
    text: str
    value: float | str | None = None
    """To sort by; None comes last."""
    note: str = ""
    """Smaller, behind the text: the cost relative to FedAvg."""
    best: bool = False


class Column(NamedTuple):
    key: str
    title: str
    explanation: str
    cell: Callable[[Row], Cell]
    better: Better | None = None
    """None: no value is best."""


def columns(summary: Summary) -> list[Column]:
    """Those that have a value for these runs."""
    rows, headline = summary.rows, summary.headline
    found = [Column("label", "algorithm", "", lambda row: Cell(row.label, row.label.lower()))]
    found.append(Column("seeds", "seeds", "Runs that differ only in their seed.", lambda row: count(row.seeds)))
    if headline is not None:
        name, better = headline.name, headline.better
        extreme = "highest" if better == "high" else "lowest"
        found += [
            Column("final", f"final {name}", "Mean ± standard deviation over seeds that ended.", final_cell, better),
            Column("best", f"{extreme} {name}", "The best evaluation of each seed.", lambda r: number(r.best), better),
        ]
        if summary.last_count != 1:  # with one evaluation it is the final value
            last = f"{summary.last_count} " if summary.last_count else ""
            explanation = f"Mean {name} of the last {last}evaluations of each seed."
            title = f"mean of last {last}".rstrip()
            found.append(Column("last", title, explanation, lambda row: number(row.last), better))
    if len(summary.targets) > 1:
        found.append(Column("target", "target", "One for each data set and model.", target_cell))
    found += [cost_column(axis, summary) for axis in summary.axes()]
    found.append(Column("norm", "norm of model", "Of the final model.", lambda row: number(row.norm, 3)))
    if any(row.failures is not None for row in rows):
        explanation = "Rounds in which the training accuracy halved, all seeds together."
        found.append(Column("failures", "failures", explanation, lambda row: count(row.failures)))
    for key, explanation in (("diverged", "Seeds that diverged."), ("unfinished", "Seeds that have not ended.")):
        if any(getattr(row, key) for row in rows):
            found.append(Column(key, key, explanation, lambda row, key=key: count(getattr(row, key))))
    return found


def cost_column(axis: Axis, summary: Summary) -> Column:
    aim = f"{summary.targets[0].value:.4g}" if len(summary.targets) == 1 else "target"
    explanation = f"Mean over seeds of the {axis.name} until the target is first reached; ≥: some seeds never did."
    if any(row.costs.get(axis.key) and row.costs[axis.key].relative is not None for row in summary.rows):
        explanation += " In brackets: relative to FedAvg."
    form = amount if axis.sums else rounds
    return Column(
        axis.key, f"{axis.short} to {aim}", explanation, lambda row: cost_cell(row.costs.get(axis.key), form), "low"
    )


def cells(summary: Summary, chosen: Sequence[Column]) -> list[list[Cell]]:
    """[rows, columns], the best of each column marked when there is a choice."""
    table = [[column.cell(row) for column in chosen] for row in summary.rows]
    one_problem = len({row.target.problem for row in summary.rows if row.target}) <= 1
    for j, column in enumerate(chosen if one_problem else ()):
        values = {value for line in table if isinstance(value := line[j].value, int | float)}
        if column.better is None or len(values) < 2:
            continue
        best = max(values) if column.better == "high" else min(values)
        for line in table:
            line[j] = line[j]._replace(best=line[j].value == best)
    return table


def final_cell(row: Row) -> Cell:
    if row.final is None:
        return Cell("diverged" if row.diverged else NOTHING)
    left = row.final.seeds
    note = f"{left}/{row.seeds} seeds" if left < row.seeds else ""
    return number(row.final)._replace(note="so far" if row.unfinished == left else note)


def target_cell(row: Row) -> Cell:
    return Cell(NOTHING) if row.target is None else Cell(f"{row.target.value:.4g}", row.target.value)


def number(value: Spread | None, digits: int = 4) -> Cell:
    if value is None:
        return Cell(NOTHING)
    size = abs(value.mean)
    small = f".{digits}f" if size == 0 or size >= 10**-digits else ".2e"
    form = form_of(size, small)
    # mean and deviation with the same number of decimals
    return Cell(" ± ".join(f"{v:{form}}" for v in value[:2] if v is not None), value.mean)


def form_of(size: float, small: str) -> str:
    """The format of numbers of this size; `small` is that of numbers below 10."""
    return small if size < 10 else ".1f" if size < 1000 else ",.0f" if size < LARGE else ".1e"


def count(value: int | None) -> Cell:
    return Cell(NOTHING) if value is None else Cell(f"{value}", value)


def amount(value: float) -> str:
    """0.0031, 0.12, 37.3, 1,250, 3.1e+09."""
    size = abs(value)
    small = ".2g" if 0 < size < 0.1 else ".2f"
    return f"{value:{form_of(size, small)}}"


def rounds(value: float) -> str:
    return f"{value:,.1f}"


def cost_cell(cost: Cost | None, form: Callable[[float], str] = amount) -> Cell:
    """A cost that no seed reached sorts behind all others, without a claim to a number."""
    if cost is None:
        return Cell(NOTHING)
    ratio = "" if cost.relative is None else f"{cost.bound}{' ' if cost.bound else ''}{times(cost.relative)}"
    if cost.reached == 0:
        return Cell("not reached", None, ratio)
    if cost.reached < cost.seeds:
        some = f"{cost.reached}/{cost.seeds} seeds"
        return Cell(f"≥ {form(cost.value)}", None, f"{ratio}, {some}" if ratio else some)
    return Cell(form(cost.value), cost.value, ratio)


def times(ratio: float) -> str:
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.0f}x"


def plain(cell: Cell) -> str:
    return f"{cell.text} ({cell.note})" if cell.note else cell.text


def rich_table(summary: Summary, full: bool = False) -> Table:
    """For the terminal: the columns that fit, or all of them."""
    from rich.table import Table
    from rich.text import Text

    chosen = [column for column in columns(summary) if full or column.key in COMPACT]
    chosen = [column for column in chosen if full or column.key != "failures" or any(r.failures for r in summary.rows)]
    table = Table(box=None, padding=(0, 2, 0, 0), caption=caption(summary) or None, caption_justify="left")
    for column in chosen:
        table.add_column(column.title, justify="left" if column.key == "label" else "right")
    for line in cells(summary, chosen):
        table.add_row(*[Text(plain(cell), style="bold" if cell.best else "") for cell in line])
    return table


def caption(summary: Summary) -> str:
    return " ".join(target.text for target in summary.targets) if len(summary.targets) == 1 else ""


def markdown_table(summary: Summary) -> str:
    """Numbers to the right, the best of each column bold."""
    chosen = columns(summary)
    lines = [[column.title for column in chosen], ["---" if c.key == "label" else "---:" for c in chosen]]
    for line in cells(summary, chosen):
        texts = [plain(cell).replace("\\", "\\\\").replace("|", "\\|") for cell in line]
        lines.append([f"**{text}**" if cell.best else text for text, cell in zip(texts, line, strict=True)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def csv_text(summary: Summary) -> str:
    """Every number in full, one line a curve; what is not known is empty."""
    records = [record(row, summary) for row in summary.rows]
    file = io.StringIO()
    writer = csv.DictWriter(file, records[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def record(row: Row, summary: Summary) -> dict[str, object]:
    values: dict[str, object] = {"curve": row.label, "algorithm": row.algorithm, "seeds": row.seeds}
    values["metric"] = summary.headline.key if summary.headline else None
    for name, spread in (("final", row.final), ("best", row.best), ("last", row.last), ("norm_x", row.norm)):
        values |= {f"{name}_mean": spread and spread.mean, f"{name}_std": spread and spread.std}
    values |= {"last_evaluations": row.last_count, "target": row.target and row.target.value}
    for axis in summary.axes():
        key, cost = axis.key, row.costs.get(axis.key)
        values |= {f"{key}_to_target": cost and cost.value, f"{key}_relative": cost and cost.relative}
        values |= {f"{key}_reached": cost and cost.reached}
    return values | {"failures": row.failures, "diverged": row.diverged, "unfinished": row.unfinished}
