"""report and watch: pages about runs."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from driftless.console import print_line
from driftless.report.metrics import plural
from driftless.runs.directory import find_runs


def report_command(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or folders that hold some.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page. Default: report.html there.")] = None,
    figure_folder: Annotated[
        Path | None, typer.Option("--figures", help="Write PDF, SVG and PNG figures into this folder.")
    ] = None,
    target: Annotated[float | None, typer.Option(help="Accuracy that costs are counted to.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace any file, and figures.")] = False,
) -> None:
    """Write one self-contained page about runs: curves, tables, the partition, notes on the runs."""
    from driftless.report import figures, html

    found = find_runs(runs)
    if figure_folder:
        written = figures.write_figures(found, figure_folder, target=target, overwrite=overwrite)
        print_line(f"{len(written)} figures in {figure_folder}")
        return
    file = output or runs[0] / "report.html"
    html.write_report(found, file, target=target, overwrite=overwrite)
    print_line(f"wrote {file} ({plural(len(found), 'run')}); next: open it in a browser; for a paper: --figures DIR")


def watch_command(
    folders: Annotated[list[Path], typer.Argument(help="Run directories, comparisons, or folders that hold some.")],
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="0: any that is free. Default: 8642.", show_default=False)
    ] = None,
    target: Annotated[float | None, typer.Option(help="Accuracy that costs are counted to.")] = None,
) -> None:
    """Follow runs in a browser while they go on; the page is served on this machine alone."""
    from driftless.report import live

    with live.open_server(folders, live.PORT if port is None else port, target) as server:
        print_line(f"watching {', '.join(map(str, folders))}; next: open {server.url} in a browser")
        tunnel = f"ssh -L {server.port}:{live.ADDRESS}:{server.port} {socket.gethostname()}"
        print_line(f"from another machine: {tunnel}, then open http://localhost:{server.port}/ there")
        print_line("Ctrl-C ends watching; the runs go on")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
