"""cost, new, list: commands that run nothing."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from driftless.cli.arguments import Json
from driftless.console import LISTS, out, print_json, print_line
from driftless.errors import unknown
from driftless.project import write_project


def cost_command(
    algorithms: Annotated[list[str] | None, typer.Argument(help="Names; default: all.", show_default=False)] = None,
    model: Annotated[str, typer.Option(help="A name of `driftless list models`.")] = "mlp",
    data: Annotated[str, typer.Option(help="The data set whose inputs the model takes.")] = "digits",
    steps: Annotated[int, typer.Option(help="Local steps K.")] = 10,
    batch_size: Annotated[int, typer.Option(help="Examples per step.")] = 32,
    examples: Annotated[int | None, typer.Option(help="Examples per client. Default: steps x batch size.")] = None,
    as_json: Json = False,
) -> None:
    """Vectors, bytes and FLOPs per client and round, derived from each algorithm's own code."""
    from driftless import cost
    from driftless.papers import cost_tables

    costs = cost.cost_table(
        algorithms or (), model=model, data=data, steps=steps, batch_size=batch_size, examples=examples
    )
    if as_json:
        print_json(cost.as_rows(costs))
        return
    out.print(cost.rich_table(costs))
    cells = cost_tables.comparison(algorithms or ())
    if not algorithms:
        out.print(cost_tables.rich_summary(cells))
        cells = [cell for cell in cells if not cell.agrees]
    if cells:
        out.print(cost_tables.rich_comparison(cells))
    print_line("next: driftless cost fedavg scaffold --model cnn --steps 55, or docs/cost.md for what is counted")


def new_command(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet, or is empty.")],
) -> None:
    """Write a small project of your own: data, model, loss, metric, algorithm, settings. It runs as it is."""
    written = write_project(folder)
    print_line(f"wrote {', '.join(path.name for path in written)}")
    print_line(f"next: cd {shlex.quote(str(folder))} && driftless run config.toml; README.md there has more")


def list_command(
    what: Annotated[str, typer.Argument(help="algorithms, datasets, models, partitions or papers")],
    as_json: Json = False,
) -> None:
    """Show what there is: algorithms | datasets | models | partitions | papers."""
    if what not in LISTS:
        raise unknown("list", what, LISTS)
    records = LISTS[what].records()
    if as_json:
        print_json(records)
        return
    out.print(LISTS[what].table(records))
    print_line(LISTS[what].next_step)
