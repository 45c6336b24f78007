"""What the command line shows: progress bars, tables and the closing words."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from driftless.algorithm import Algorithm
from driftless.algorithms import ALGORITHMS
from driftless.cost import vectors
from driftless.data import DATASETS, PARTITIONS
from driftless.engine.history import Record
from driftless.models import MODELS
from driftless.runs.callbacks import Callback
from driftless.runs.directory import StoredRun

WIDE = 150
"""Columns of a table that goes to a file or a pipe, where nobody's window limits it."""
out = Console(emoji=False) if sys.stdout.isatty() else Console(emoji=False, width=WIDE)
err = Console(emoji=False, stderr=True)


def say(text: str) -> None:
    out.print(text, markup=False, highlight=False, soft_wrap=True)


class Bar:
    """A progress bar over rounds, with rate and time left; shown from the first call on."""

    def __init__(self, progress: Progress, title: str, total: int) -> None:
        self._progress = progress
        self._total = total
        self._task = progress.add_task(title, total=total, said="", rate="")

    def __call__(self, done: int, said: str = "") -> None:
        self._progress.start()
        speed = self._progress.tasks[0].speed
        rate = f"{speed:.1f}/s" if speed else ""
        self._progress.update(self._task, completed=min(done, self._total), rate=rate, said=said)


@contextmanager
def rounds_bar(title: str, total: int, quiet: bool = False) -> Generator[Bar]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}"),
    )
    progress = Progress(*columns, console=err, disable=quiet or not err.is_terminal)
    try:
        yield Bar(progress, title, total)
    finally:
        progress.stop()


class ShowProgress(Callback):
    """Moves a bar with each round of a run."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar

    def on_round(self, record: Record) -> None:
        loss, accuracy = record.metrics.get("train_loss"), record.metrics.get("test_accuracy")
        parts = [f"train loss {loss:.4f}" if loss is not None else "round lost"]
        parts += [f"test accuracy {accuracy:.4f}"] if accuracy is not None else []
        self._bar(record.round, "  ".join(parts))


def run_table(run: StoredRun) -> Table:
    result = run.result or {}
    final: Mapping[str, Any] = result.get("final", {})
    sent = sum(row["bytes_down"] + row["bytes_up"] for row in run.rows) / 1e6
    table = Table("rounds", "train loss", "test loss", "test accuracy", "best", "norm of x", "MB sent", box=None)
    shown = [final.get("train_loss"), final.get("test_loss"), final.get("test_accuracy")]
    shown += [result.get("best_test_accuracy"), final.get("norm_x")]
    table.add_row(str(result.get("rounds", 0)), *[number(value) for value in shown], f"{sent:.1f}")
    return table


def events_text(events: list[dict[str, Any]], most: int = 5) -> list[str]:
    """The first few events in words."""
    lines: list[str] = []
    for event in events[:most]:
        clients = event["clients"]
        names = ", ".join(map(str, clients[:5])) + (", ..." if len(clients) > 5 else "")
        lines.append(f"round {event['round']}: {event['what']}" + (f" (clients {names})" if clients else ""))
    if len(events) > most:
        lines.append(f"... and {len(events) - most} more events, all in events.jsonl")
    return lines


def algorithms_table() -> Table:
    table = Table("name", box=None, padding=(0, 1))
    table.add_column("hyper-parameters (defaults)", overflow="fold")
    for title in ("down", "up", "kept"):
        table.add_column(title, justify="right")
    table.add_column("citation", overflow="fold")
    for name, cls in ALGORITHMS.items():
        cost = vectors(cls())
        table.add_row(name, hyper_parameters(cls), str(cost.down), str(cost.up), str(cost.client), cls.citation)
    table.caption = "down, up, kept: vectors of the model's size sent to a client, sent back, kept by the client"
    table.caption_justify = "left"
    return table


def hyper_parameters(cls: type[Algorithm]) -> str:
    parts = [f"{f.name}={f.default}" for f in fields(cls) if f.default is not MISSING]  # pyright: ignore
    return ", ".join(parts)


def datasets_table() -> Table:
    table = Table("name", "what", "files", "options (defaults)", box=None, padding=(0, 1))
    for name, source in DATASETS.items():
        table.add_row(name, source.summary, source.files, parameters(source.options))
    return table


def partitions_table() -> Table:
    table = Table("name", "what", "options (defaults)", box=None, padding=(0, 1))
    for name, rule in PARTITIONS.items():
        table.add_row(name, rule.summary, parameters(rule.options))
    return table


def models_table() -> Table:
    table = Table(box=None, padding=(0, 1))
    table.add_column("name", no_wrap=True)
    table.add_column("what", overflow="fold")
    for name, builder in MODELS.items():
        table.add_row(name, (inspect.getdoc(builder) or "").splitlines()[0])
    return table


LISTS: dict[str, tuple[Callable[[], Table], str]] = {
    "algorithms": (algorithms_table, "algorithm=NAME algorithm.KEY=VALUE"),
    "datasets": (datasets_table, "data=NAME data.KEY=VALUE"),
    "models": (models_table, "model=NAME"),
    "partitions": (partitions_table, "data.partition=NAME data.KEY=VALUE"),
}


def parameters(options: Mapping[str, inspect.Parameter]) -> str:
    """`alpha, sizes=balanced`: an option without a default must be given."""
    empty = inspect.Parameter.empty
    return ", ".join(name if p.default is empty else f"{name}={p.default}" for name, p in options.items()) or "-"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
