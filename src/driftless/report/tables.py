"""The summary as a table: for the terminal, Markdown, CSV and the page."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from driftless.report.curves import metrics_of
from driftless.report.metrics import Axis, Better, is_asked_for, metric
from driftless.report.paired import AGAINST, Against, Difference, Verdict
from driftless.report.summary import Cost, Row, Spread, Summary, counted, final

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

NOTHING = "–"
LARGE = 1e7
"""From here on, powers of ten are easier to read."""
COMPACT = ("label", "final", "paired", "epsilon", "rounds", "megabytes", "failures", "diverged")
"""What fits into 80 columns."""
WHOLE, LONGEST_WHOLE = ("label", "final", "paired", "failures", "diverged"), 18
"""What stays on one line in a narrow terminal, where the other columns break theirs."""
MARKS: dict[Verdict, str] = {"better": " ▲", "worse": " ▼", "not distinguishable": ""}


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
    if headline is not None:
        found += paired_columns(summary)
    found += own_columns(summary)
    if len(summary.targets) > 1:
        found.append(Column("target", "target", "One for each data set and model.", target_cell))
    found += [cost_column(axis, summary) for axis in summary.axes()]
    if any("epsilon" in curve.metrics() for curve in summary.curves):
        found.append(epsilon_column(summary))
    found.append(Column("norm", "norm of model", "Of the final model.", lambda row: number(row.norm, 3)))
    if any(row.failures is not None for row in rows):
        explanation = "Rounds in which the training accuracy halved, all seeds together."
        found.append(Column("failures", "failures", explanation, lambda row: count(row.failures)))
    for key, explanation in (("diverged", "Seeds that diverged."), ("unfinished", "Seeds that have not ended.")):
        if any(getattr(row, key) for row in rows):
            found.append(Column(key, key, explanation, lambda row, key=key: count(getattr(row, key))))
    return found


def own_columns(summary: Summary) -> list[Column]:
    """Final values of metrics that a user asked for, beside what the runs are judged by."""
    curves = {curve.label: curve for curve in summary.curves}
    keys = [key for key in metrics_of(summary.curves) if is_asked_for(key)]
    return [
        Column(
            f"final {key}", f"final {metric(key).name}", "Mean ± standard deviation over seeds that ended.",
            lambda row, key=key: number(final(counted(curves[row.label]), key)), metric(key).better,
        )
        for key in keys if not (summary.headline and summary.headline.key == key)
    ]  # fmt: skip


def epsilon_column(summary: Summary) -> Column:
    curves = {curve.label: curve for curve in summary.curves}
    explanation = "Of differential privacy, after the last round; without a number: no guarantee."

    def cell(row: Row) -> Cell:
        value = final(counted(curves[row.label]), "epsilon")
        return Cell(NOTHING) if value is None else Cell(f"{value.mean:.4g}", value.mean)

    return Column("epsilon", "epsilon", explanation, cell, "low")


def paired_columns(summary: Summary) -> list[Column]:
    """Against FedAvg, if there is one, and against the best; the first of them is for the terminal."""
    found = [column for against in AGAINST if (column := paired_column(summary, against))]
    return [column._replace(key="paired") if not position else column for position, column in enumerate(found)]


def paired_column(summary: Summary, against: Against) -> Column | None:
    references = {each.reference for row in summary.rows for each in row.differences if each.against == against}
    if not references:
        return None
    explanation = (
        "Mean difference of the last evaluations over the seeds that both have, ± half of its 95 % confidence "
        "interval; ▲ better, ▼ worse, no mark: not distinguishable."
    )
    one = against == "fedavg" and len(references) == 1
    title = f"vs {references.pop() if one else against}"
    return Column(f"vs {against}", title, explanation, lambda row: paired_cell(row, against))


def paired_cell(row: Row, against: Against) -> Cell:
    found = next((each for each in row.differences if each.against == against), None)
    if found is None:
        return Cell(NOTHING)
    form = precision(found.mean, found.half)
    half = "" if found.half is None else f" ± {found.half:{form}}"
    text = f"{found.mean:+{form}}{half}{MARKS[found.verdict]}"
    return Cell(text, found.mean, paired_details(found, form))


def precision(mean: float, half: float | None) -> str:
    """The format that shows two figures of the uncertainty: +0.0190 ± 0.0060."""
    if not half:
        return ".2g"
    decimals = 1 - math.floor(math.log10(half))
    return f".{max(decimals, 0)}f" if decimals < 7 and max(abs(mean), half) < LARGE else ".1e"


class Differences(NamedTuple):
    """The paired differences as texts."""

    titles: list[str]
    lines: list[list[str]]
    explanation: str


def differences_table(summary: Summary) -> Differences:
    """A line for each pair, once, in words: better, worse or not distinguishable."""
    swept = any(cell.name for cell, _ in summary.parts)
    titles = ["algorithm", *(["cell"] if swept else []), "compared with", "difference", "95 % interval", "seeds",
              "method", "verdict"]  # fmt: skip
    pairs: dict[tuple[str, frozenset[str]], list[str]] = {}
    for cell, part in summary.parts:
        for row in part.rows:
            for each in row.differences:
                line = [row.label, *([cell.name] if swept else []), each.reference, *difference_texts(each)]
                pairs.setdefault((cell.name, frozenset((row.label, each.reference))), line)
    name = summary.headline.name if summary.headline else ""
    explanation = (
        f"Mean difference of the {name} (its last evaluations) over the seeds that both have. Better or worse is said "
        "where the 95 % confidence interval of the pair excludes 0: of twenty pairs of equals, one is expected to."
    )
    left_out = any(each.diverged for row in summary.rows for each in row.differences)
    return Differences(
        titles, list(pairs.values()), explanation + (" Seeds in which a run diverged are left out." * left_out)
    )


def difference_texts(each: Difference) -> list[str]:
    form = precision(each.mean, each.half)
    known = each.low is not None and each.high is not None
    interval = f"{each.low:+{form}} to {each.high:+{form}}" if known else NOTHING
    return [f"{each.mean:+{form}}", interval, f"{each.seeds}", each.method or NOTHING, each.verdict]


def paired_details(difference: Difference, form: str) -> str:
    parts = [f"{difference.seeds} seeds"]
    if difference.low is not None and difference.high is not None:
        parts = [f"{difference.low:+{form}} to {difference.high:+{form}}", *parts, str(difference.method)]
    return ", ".join(parts + ([f"{difference.diverged} diverged"] if difference.diverged else []))


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
    one_problem = len({(row.cell, row.target and row.target.problem) for row in summary.rows}) <= 1
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


def rich_tables(summary: Summary, full: bool = False) -> list[Table | Text]:
    """For the terminal: a table for each cell, and what the marks mean."""
    from rich.text import Text

    tables: list[Table | Text] = [rich_table(part, full, cell.name) for cell, part in summary.parts]
    note = paired_note(summary)
    return [*tables, Text(note, style="dim italic")] if note else tables


def rich_table(summary: Summary, full: bool = False, title: str = "") -> Table:
    """The columns that fit, or all of them."""
    from rich.table import Table
    from rich.text import Text

    chosen = [column for column in columns(summary) if full or column.key in COMPACT]
    chosen = [column for column in chosen if full or column.key != "failures" or any(r.failures for r in summary.rows)]
    table = Table(box=None, padding=(0, 2, 0, 0), caption=caption(summary) or None, caption_justify="left")
    table.title, table.title_justify = Text(title, style="bold") if title else None, "left"
    lines = cells(summary, chosen)
    texts = [[terminal_text(column, cell, full) for column, cell in zip(chosen, line, strict=True)] for line in lines]
    for position, column in enumerate(chosen):
        justify = "left" if column.key == "label" else "right"
        longest = max(len(line[position]) for line in texts)
        whole = column.key in WHOLE and longest <= LONGEST_WHOLE
        header = fill(column.title, max(longest, len("final test"))) if whole else column.title
        table.add_column(header, justify=justify, overflow="fold", no_wrap=whole)
    for line, shown in zip(lines, texts, strict=True):
        styled = [Text(text, style="bold" if cell.best else "") for cell, text in zip(line, shown, strict=True)]
        table.add_row(*styled)
    return table


def terminal_text(column: Column, cell: Cell, full: bool) -> str:
    return plain(cell) if full or column.key != "paired" else cell.text


def paired_note(summary: Summary) -> str:
    """What the terminal's column of differences means, and what it leaves out; empty without such a column."""
    found = [each for row in summary.rows for each in row.differences]
    if not found:
        return ""
    shown = next(against for against in AGAINST if any(each.against == against for each in found))
    note = (
        f"vs {shown}: mean of the last evaluations, paired over seeds, ± half of the 95 % interval of each pair; "
        "▲ better, ▼ worse, no mark: not distinguishable."
    )
    left_out = any(each.diverged for each in found)
    return f"{note} Seeds in which one of the two runs diverged are left out." if left_out else note


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
    values: dict[str, object] = {"curve": row.label, "algorithm": row.algorithm, "cell": row.cell, "seeds": row.seeds}
    values["metric"] = summary.headline.key if summary.headline else None
    for name, spread in (("final", row.final), ("best", row.best), ("last", row.last), ("norm_x", row.norm)):
        values |= {f"{name}_mean": spread and spread.mean, f"{name}_std": spread and spread.std}
    values |= {"last_evaluations": row.last_count, "target": row.target and row.target.value}
    for axis in summary.axes():
        key, cost = axis.key, row.costs.get(axis.key)
        values |= {f"{key}_to_target": cost and cost.value, f"{key}_relative": cost and cost.relative}
        values |= {f"{key}_reached": cost and cost.reached}
    return values | {"failures": row.failures, "diverged": row.diverged, "unfinished": row.unfinished}


def json_record(summary: Summary) -> dict[str, object]:
    """The whole: cells, and by cell the rows and every paired difference."""
    parts = summary.parts
    return {
        "cells": [{"name": cell.name, "settings": cell.values} for cell, _ in parts],
        "algorithms": [record(row, part) for _, part in parts for row in part.rows],
        "differences": [
            {"curve": row.label, "cell": cell.name, **each._asdict()}
            for cell, part in parts
            for row in part.rows
            for each in row.differences
        ],
    }
