"""What the command line shows: progress bars, tables, lists."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from driftless import progress
from driftless.algorithms import ALGORITHMS
from driftless.config.describe import Description, lines
from driftless.cost import vectors
from driftless.data import DATASETS, PARTITIONS
from driftless.engine.history import Event, first_events
from driftless.engine.metrics import METRICS
from driftless.failures import INTERRUPTED, Failure
from driftless.final_values import final_table, heading
from driftless.models import MODELS
from driftless.runs.directory import StoredRun

WIDE = 150
"""Columns of a table that goes to a file or a pipe."""
out = Console(emoji=False) if sys.stdout.isatty() else Console(emoji=False, width=WIDE)
err = Console(emoji=False, stderr=True)


def print_line(text: str) -> None:
    """Text as it is: no markup, no colours, no line breaks at the width of the window."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def tell(texts: Iterable[str]) -> None:
    """Lines that are no result: they go where the progress bar is."""
    for text in texts:
        err.print(text, markup=False, highlight=False, soft_wrap=True)


def show_failure(failure: Failure) -> None:
    if failure.traceback:
        err.print(failure.traceback, markup=False, highlight=False, soft_wrap=True, end="")
    label = "" if failure.code == INTERRUPTED else "[bold red]error:[/] "
    err.print(f"{label}{escape(failure.message)}", highlight=False, soft_wrap=True)


def print_json(value: object) -> None:
    print(json.dumps(value, default=str))  # noqa: T201


@contextmanager
def loading(what: str, silent: bool) -> Generator[Callable[[], None]]:
    """A line on the terminal while there is nothing else to show, until the function that is given is called."""
    status = err.status(escape(what))
    if err.is_terminal and not silent:
        status.start()
    try:
        yield status.stop
    finally:
        status.stop()


def announcement(loaded: Callable[[], None], silent: bool) -> Callable[[Description], None]:
    """Shows what a run does, in place of the line that says that it is loaded."""

    def announce(description: Description) -> None:
        loaded()
        if not silent:
            tell(lines(description))

    return announce


rounds_bar = partial(progress.rounds_bar, console=err)


def show_run(run: StoredRun) -> None:
    """The last and best values of a run, and what happened to it."""
    print_line(heading(short_name(run.config.algorithm.name), run.rows))
    out.print(final_table(run.rows))
    reason = (run.result or {}).get("reason")  # shown by itself
    for line in first_events([event for each in run.events if (event := Event(**each)).what != reason]):
        print_line(line)


def short_name(algorithm: str) -> str:
    """`Mine` for the algorithm /home/me/my.py:Mine."""
    return algorithm.rpartition(":")[2]


Records = list[dict[str, Any]]
"""What a list shows, a dict per entry, as `--json` prints it."""


class Listing(NamedTuple):
    """One of the lists of `driftless list`."""

    records: Callable[[], Records]
    table: Callable[[Records], Table]
    next_step: str


def algorithm_records() -> Records:
    costs = {name: vectors(cls()) for name, cls in ALGORITHMS.items()}
    return [
        {
            "name": name,
            "class": f"{cls.__module__}.{cls.__qualname__}",
            "citation": cls.citation,
            "hyper_parameters": {field.name: field.default for field in fields(cls)},  # pyright: ignore[reportArgumentType]
            "weighting": cls.weighting,
            "vectors": {"down": costs[name].down, "up": costs[name].up, "kept": costs[name].client},
        }
        for name, cls in ALGORITHMS.items()
    ]


def algorithms_table(records: Records) -> Table:
    table = Table("name", box=None, padding=(0, 1))
    table.add_column("hyper-parameters (defaults)", overflow="fold")
    for title in ("down", "up", "kept"):
        table.add_column(title, justify="right")
    table.add_column("citation", overflow="fold")
    for each in records:
        table.add_row(
            each["name"], defaults_text(each["hyper_parameters"]), *map(str, each["vectors"].values()), each["citation"]
        )
    table.caption = "down, up, kept: vectors of the model's size sent to a client, sent back, kept by the client"
    table.caption_justify = "left"
    return table


def dataset_records() -> Records:
    return [
        {
            "name": name,
            "description": source.summary,
            "available": source.is_here is None or source.is_here(),
            "files": source.files,
            **option_fields(source.options),
        }
        for name, source in DATASETS.items()
    ]


def partition_records() -> Records:
    return [
        {"name": name, "description": rule.summary, **option_fields(rule.options)} for name, rule in PARTITIONS.items()
    ]


def model_records() -> Records:
    return [
        {"name": name, "description": (inspect.getdoc(builder) or "").splitlines()[0]}
        for name, builder in MODELS.items()
    ]


def described_table(records: Records) -> Table:
    """What each entry is, and its files and options where entries have such."""
    titles = {"name": "name", "description": "what", "files": "files", "options": "options (defaults)"}
    shown = [key for key in titles if key in records[0]]
    table = Table(*(titles[key] for key in shown), box=None, padding=(0, 1))
    table.columns[0].no_wrap, table.columns[1].overflow = True, "fold"
    for each in records:
        table.add_row(*(options_text(each) if key == "options" else each[key] for key in shown))
    return table


def paper_records() -> Records:
    from driftless.papers import PAPERS  # slow to import: only where it is needed

    return [
        {
            "name": paper.name,
            "title": paper.title,
            "citation": paper.citation,
            "experiments": [
                {
                    "name": f"{paper.name}/{one.name}",
                    "title": one.title,
                    "where": one.where,
                    "description": one.about,
                    "claims": [{"text": claim.text, "rule": claim.rule} for claim in one.claims],
                }
                for one in paper.experiments
            ],
        }
        for paper in PAPERS.values()
    ]


def papers_table(_: Records) -> Table:
    from driftless.papers import PAPERS, VERDICTS_FILE
    from driftless.reproduce import pages, verdicts

    return pages.papers_table(PAPERS.values(), verdicts.read_summary(VERDICTS_FILE))


def metric_records() -> Records:
    return [
        {"name": name, "description": each.what, "targets": each.needs, "higher_is_better": each.higher_is_better}
        for name, each in METRICS.items()
    ]


def metrics_table(records: Records) -> Table:
    table = Table("name", "what", "targets", "better", box=None, padding=(0, 1))
    for each in records:
        better = "high" if each["higher_is_better"] else "low"
        table.add_row(each["name"], each["description"], each["targets"], better)
    return table


LISTS = {
    "algorithms": Listing(
        algorithm_records, algorithms_table, "use one: driftless run algorithm=NAME algorithm.KEY=VALUE"
    ),
    "datasets": Listing(dataset_records, described_table, "use one: driftless run data=NAME data.KEY=VALUE"),
    "models": Listing(model_records, described_table, "use one: driftless run model=NAME"),
    "partitions": Listing(
        partition_records, described_table, "use one: driftless run data.partition=NAME data.KEY=VALUE"
    ),
    "metrics": Listing(metric_records, metrics_table, "use some: driftless run metrics=NAME,NAME"),
    "papers": Listing(paper_records, papers_table, "run one: driftless reproduce PAPER/EXPERIMENT --scale small"),
}


def option_fields(options: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """The options with their defaults, and the names of those that must be given."""
    empty = inspect.Parameter.empty
    return {
        "options": {name: None if p.default is empty else p.default for name, p in options.items()},
        "required": [name for name, p in options.items() if p.default is empty],
    }


def options_text(record: Mapping[str, Any]) -> str:
    """`alpha, sizes=balanced`: an option without a default must be given."""
    given = {name: default for name, default in record["options"].items() if name not in record["required"]}
    return ", ".join([*record["required"], *([defaults_text(given)] if given else [])]) or "-"


def defaults_text(defaults: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={default}" for name, default in defaults.items())
