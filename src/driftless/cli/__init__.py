"""The command line. Every command ends with the next step; a user's mistake gives one line, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer

from driftless import __version__, failures, starting
from driftless.cli.deploy import deploy_app
from driftless.cli.experiments import compare_command, resume_command, run_command, tune_command
from driftless.cli.information import cost_command, list_command, new_command
from driftless.cli.reports import report_command, watch_command
from driftless.cli.reproduce import reproduce_command
from driftless.cli.suggest import suggest_command
from driftless.console import print_line, show_failure
from driftless.engine.ranks import Ranks, all_ranks

COMMANDS = {
    "run": run_command,
    "resume": resume_command,
    "compare": compare_command,
    "tune": tune_command,
    "report": report_command,
    "watch": watch_command,
    "cost": cost_command,
    "suggest": suggest_command,
    "reproduce": reproduce_command,
    "new": new_command,
    "list": list_command,
}
"""In the order of `driftless --help`."""

app = typer.Typer(
    name="driftless",
    help="Federated optimisation: compare some thirty algorithms, exactly reproducibly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for name, function in COMMANDS.items():
    app.command(name)(function)
app.add_typer(deploy_app)


def main() -> None:
    """Entry point: whatever goes wrong becomes one message and an exit code. Of several ranks only rank 0 speaks."""
    starting.done()
    with one_message(), all_ranks() as ranks:
        if ranks.rank == 0:
            with one_message():  # before the others are told: a launcher ends all when one of them ends
                call()
        else:
            with silence(ranks):
                call()


@contextmanager
def silence(ranks: Ranks) -> Generator[None]:
    """Until this process ends, unless rank 0, which speaks for all, is lost."""
    streams = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        yield
    finally:
        if ranks.speaks:
            sys.stdout, sys.stderr = streams


def call() -> None:
    try:
        app()
    finally:
        sys.stdout.flush()  # a full disk is noticed here, not when Python has ended


@contextmanager
def one_message() -> Generator[None]:
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        failure = failures.explain(error)
        show_failure(failure)
        sys.exit(failure.code)


def _version(wanted: bool) -> None:
    if wanted:
        print_line(f"driftless {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass
