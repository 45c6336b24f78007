"""The command line. Every command ends by saying what to do next; a user's mistake is one line, never a traceback."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from driftless import __version__
from driftless.algorithm import Algorithm
from driftless.algorithms import ALGORITHMS
from driftless.data import DATASETS, PARTITIONS
from driftless.errors import Diverged, InputError, unknown
from driftless.experiment import compare as comparing
from driftless.experiment import config as configuration
from driftless.experiment.build import run as run_config
from driftless.experiment.cost import vectors
from driftless.models import MODELS

app = typer.Typer(
    name="driftless",
    help="Federated optimisation: compare some thirty algorithms, exactly reproducibly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console()
err = Console(stderr=True)

Words = Annotated[list[str] | None, typer.Argument(metavar="[CONFIG.toml] [KEY=VALUE]...", show_default=False)]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[ALGORITHM]... [CONFIG.toml] [KEY=VALUE]...", show_default=False)
]


def main() -> None:
    """Entry point: turns the errors that users can make into one message and an exit code."""
    try:
        app()
    except InputError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(2)
    except Diverged as error:
        err.print(f"[bold red]{escape(str(error))}[/]", soft_wrap=True)
        sys.exit(3)
    except KeyboardInterrupt:
        err.print("stopped.")
        sys.exit(130)


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"driftless {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass


@app.command()
def run(
    words: Words = None,
    print_config: Annotated[bool, typer.Option("--print-config", help="Show every setting and its source.")] = False,
) -> None:
    """Run one experiment: driftless run algorithm=adabest data=digits rounds=60 cohort=10 seed=3"""
    algorithms, file, overrides = sort_words(words or [])
    if algorithms:
        raise InputError(f"'{algorithms[0]}' is not key=value or a .toml file; did you mean algorithm={algorithms[0]}?")
    if file and "compare" in configuration.read_toml(file):
        raise InputError(f"{file} describes a comparison; use: driftless compare {file}")
    resolved = configuration.resolve(file, overrides)
    if print_config:
        out.print(configuration.to_toml(resolved), markup=False, highlight=False, soft_wrap=True)
        return
    config = resolved.config
    with rounds_bar(config.algorithm.name, config.run.rounds) as (advance, say):

        def on_round(record: Any) -> None:
            accuracy, loss = record.metrics.get("test_accuracy"), record.metrics.get("train_loss")
            text = "" if loss is None else f"train loss {loss:.4f}"
            say(text if accuracy is None else f"{text}  test accuracy {accuracy:.4f}")
            advance(record.round)

        result = run_config(config, on_round)
    last = result.history[-1]
    table = Table("round", "train loss", "test loss", "test accuracy", "norm of x", "MB sent", box=None)
    sent = sum(row["bytes_down"] + row["bytes_up"] for row in result.history) / 1e6
    cells = [last.get("train_loss"), last.get("test_loss"), last.get("test_accuracy"), last["norm_x"]]
    table.add_row(str(last["round"]), *[number(value) for value in cells], f"{sent:.1f}")
    out.print(table)
    out.print(f"engine: {result.engine['kind']}, blocks of {result.engine['block_size']}", highlight=False)
    for event in result.events[:5]:
        out.print(f"round {event.round}: {event.what}{clients_text(event.clients)}", highlight=False)
    if len(result.events) > 5:
        out.print(f"... and {len(result.events) - 5} more events", highlight=False)
    again = " ".join(word for word in words or [] if not word.startswith(("algorithm=", "algorithm.name=")))
    others = f"fedavg scaffold {config.algorithm.name}" if config.algorithm.name != "fedavg" else "fedavg scaffold"
    out.print(f"next: driftless compare {others} {again}".rstrip(), highlight=False, soft_wrap=True)


def clients_text(clients: tuple[int, ...]) -> str:
    if not clients:
        return ""
    shown = ", ".join(map(str, clients[:5])) + (", ..." if len(clients) > 5 else "")
    return f" (client{'s' if len(clients) > 1 else ''} {shown})"


@app.command()
def compare(
    names: Names = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at the same time. Default: the number of cores.")] = None,
) -> None:
    """Compare algorithms over seeds: driftless compare fedavg scaffold adabest rounds=100 seeds=3 target=0.9"""
    algorithms, file, overrides = sort_words(names or [])
    comparison = comparing.plan(algorithms, file, overrides)
    total = sum(config.run.rounds for config in comparison.configs.values())
    runs = f"{len(comparison.algorithms)} algorithms x {len(comparison.seeds)} seeds"
    with rounds_bar(runs, total) as (advance, _):
        table = comparing.execute(comparison, advance, jobs)
    out.print(comparison_table(table))
    out.print("next: change any setting, e.g. add data.alpha=0.3 or local.lr=0.05; driftless run ... for one algorithm")


def comparison_table(compared: comparing.Table) -> Table:
    target = f"{compared.target:g}" if compared.target is not None else "target"
    table = Table("algorithm", box=None, padding=(0, 2))
    for title in ("final accuracy", f"rounds to {target}", f"MB to {target}", "norm of model"):
        table.add_column(title, justify="right")
    for line in sorted(compared.lines, key=lambda entry: -(entry.accuracy if entry.accuracy is not None else -1)):
        accuracy = "-" if line.accuracy is None else f"{line.accuracy:.4f} ± {line.deviation:.4f}"
        if line.diverged:
            accuracy = f"diverged ({line.diverged} seed{'s' if line.diverged > 1 else ''})"
        rounds = "-" if line.rounds_to_target is None else f"{line.rounds_to_target:.1f}"
        sent = "-" if line.megabytes_to_target is None else f"{line.megabytes_to_target:.1f}"
        table.add_row(line.algorithm, accuracy, rounds, sent, number(line.norm))
    return table


def sort_words(words: Sequence[str]) -> tuple[list[str], Path | None, list[str]]:
    """Algorithm names, the configuration file, and the key=value settings, in any order."""
    overrides = [word for word in words if "=" in word]
    files = [word for word in words if word.endswith(".toml") and "=" not in word]
    if len(files) > 1:
        raise InputError(f"two configuration files were given, {files[0]} and {files[1]}; give one.")
    algorithms = [word for word in words if word not in overrides and word not in files]
    return algorithms, Path(files[0]) if files else None, overrides


@contextmanager
def rounds_bar(title: str, total: int) -> Generator[tuple[Callable[[int], None], Callable[[str], None]]]:
    """A progress bar over rounds, with rate and time left: (set the rounds done, set the text)."""
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
    with Progress(*columns, console=err, transient=not err.is_terminal) as progress:
        task = progress.add_task(title, total=total, said="", rate="")

        def advance(done: int) -> None:
            speed = progress.tasks[0].speed
            progress.update(task, completed=done, rate=f"{speed:.1f}/s" if speed else "")

        yield advance, lambda said: progress.update(task, said=said)


@app.command("list")
def list_(what: Annotated[str, typer.Argument(help="algorithms, datasets, models or partitions")]) -> None:
    """Show what there is: algorithms | datasets | models | partitions."""
    tables = {
        "algorithms": algorithms_table,
        "datasets": datasets_table,
        "models": models_table,
        "partitions": partitions_table,
    }
    if what not in tables:
        raise unknown("list", what, tables)
    out.print(tables[what]())
    hints = {
        "algorithms": "algorithm=NAME algorithm.KEY=VALUE",
        "datasets": "data=NAME data.KEY=VALUE",
        "models": "model=NAME",
        "partitions": "data.partition=NAME data.KEY=VALUE",
    }
    out.print(f"use one: driftless run {hints[what]}", highlight=False)


def algorithms_table() -> Table:
    table = Table("name", "hyper-parameters (defaults)", box=None, padding=(0, 1))
    for title in ("down", "up", "kept"):
        table.add_column(title, justify="right")
    table.add_column("citation")
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
    table = Table("name", "what", "options (defaults)", box=None, padding=(0, 1))
    for name, source in DATASETS.items():
        table.add_row(name, source.summary, parameters(source.options))
    return table


def partitions_table() -> Table:
    table = Table("name", "what", "options (defaults)", box=None, padding=(0, 1))
    for name, rule in PARTITIONS.items():
        table.add_row(name, rule.summary, parameters(rule.options))
    return table


def models_table() -> Table:
    table = Table("name", "what", box=None, padding=(0, 1))
    for name, builder in MODELS.items():
        table.add_row(name, (inspect.getdoc(builder) or "").splitlines()[0])
    return table


def parameters(options: Any) -> str:
    """`alpha, sizes=balanced`: an option without a default must be given."""
    empty = inspect.Parameter.empty
    return ", ".join(name if p.default is empty else f"{name}={p.default}" for name, p in options.items()) or "-"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
