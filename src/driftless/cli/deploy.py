"""deploy: from the simulator to machines."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from driftless.console import print_line
from driftless.project import FEDERATION, write_project

deploy_app = typer.Typer(name="deploy", no_args_is_help=True, help="A federation of real machines, on Flower.")


@deploy_app.callback()
def deploy() -> None:
    """A federation of real machines, on Flower."""


@deploy_app.command("new")
def new_federation_command(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet, or is empty.")],
) -> None:
    """Write a project for Flower: apps for server and nodes, settings, keys. It runs as it is."""
    written = write_project(folder, FEDERATION)
    print_line(f"wrote {', '.join(str(path.relative_to(folder)) for path in written)}")
    print_line(f"next: cd {shlex.quote(str(folder))} && python simulate.py; README.md there starts the nodes")
