"""The report as one HTML file that needs no network and no other file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from driftless.errors import InputError
from driftless.report import line_styles
from driftless.report.cells import Cell
from driftless.report.chart_data import chart_data, is_thinned
from driftless.report.commands import commands
from driftless.report.grid import grid_of
from driftless.report.line_styles import Style
from driftless.report.notes import ending_early, environments, notes_of
from driftless.report.overview import facts, findings, title_of
from driftless.report.partition import partitions
from driftless.report.settings import settings_tables
from driftless.report.summary import Summary, summarise
from driftless.report.tables import cells, columns, differences_table
from driftless.runs.directory import StoredRun
from driftless.runs.files import write_atomically

GENERATOR = '<meta name="generator" content="driftless">'
"""By this line a report is known again."""
HEAD = 1000
"""Bytes of a page that hold it."""
SCRIPTS = ("charts.js", "sweep.js", "page.js")


def write_report(
    runs: Sequence[StoredRun], file: Path, target: float | None = None, *, title: str | None = None,
    overwrite: bool = False,
) -> Path:  # fmt: skip
    """Write the page. An older report is renewed; any other file is kept unless `overwrite`."""
    check_free(file, overwrite)
    page = render("template.html", **context(summarise(runs, target), title), live=None, plotly=plotly())
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, page.encode())
    return file


def check_free(file: Path, overwrite: bool) -> None:
    if file.is_dir():
        raise InputError(f"'{file}' is a folder; give the name of a file in it, such as {file / 'report.html'}.")
    if file.exists() and not file.is_file():
        raise InputError(f"'{file}' is not a file that can be replaced; give the name of another one.")
    if file.exists() and not overwrite and not is_report(file):
        raise InputError(
            f"'{file}' exists and is not a report of driftless; give another name, or replace it: --overwrite "
            "(overwrite=True)."
        )


def is_report(file: Path) -> bool:
    """Whether driftless wrote it, by the head of the page."""
    with file.open("rb") as page:
        return GENERATOR.encode() in page.read(HEAD)


def render(template: str, **values: Any) -> str:
    """A page as text. Our own style sheet and scripts go in as they are; everything else is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("driftless.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = {"css": read("page.css"), "js": "\n".join(map(read, SCRIPTS)), "generator": GENERATOR}
    return environment.get_template(template).render(**values, **own)


def read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def plotly() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def context(summary: Summary, title: str | None = None) -> dict[str, Any]:
    """What template.html shows."""
    curves = summary.curves
    grid = grid_of(summary)
    styles = line_styles.styles(curves, grid)
    by_label = {curve.label: style for curve, style in zip(curves, styles, strict=True)}
    divisions = partitions(curves)
    differing, common = settings_tables([curve.settings for curve in curves])
    data = chart_data(summary, styles, divisions, grid)
    return {
        "title": title or title_of(curves),
        "summary": summary,
        "styles": styles,
        "palette": {"light": line_styles.LIGHT, "dark": line_styles.DARK},
        "facts": facts(curves, divisions[0].clients if len(divisions) == 1 else None),
        "findings": findings(summary),
        "tables": [cell_table(cell, part, by_label) for cell, part in summary.parts],
        "differences": differences_table(summary),
        "partitions": divisions,
        "differing": differing,
        "common": common,
        "notes": notes_of(curves),
        "ending_early": ending_early(curves),
        "thinned": is_thinned(curves),
        "several_seeds": any(len(curve.runs) > 1 for curve in curves),
        "commands": commands(curves),
        "paths": [(curve.label, [str(run.stored.path) for run in curve.runs]) for curve in curves],
        "environments": environments(curves),
        "metrics": data["metrics"],
        "legend": data["metrics"][data["headline"]]["order"] if data["headline"] else range(len(curves)),
        "data": safe_json(data),
    }


def cell_table(cell: Cell, part: Summary, styles: dict[str, Style]) -> dict[str, Any]:
    """The summary of one cell of a sweep, or of all that was compared; the paired differences have their own table."""
    chosen = [column for column in columns(part) if column.key != "paired" and not column.key.startswith("vs ")]
    return {
        "name": cell.name,
        "columns": chosen,
        "lines": cells(part, chosen),
        "targets": part.targets,
        "swatches": {curve.label: styles[full] for curve, full in zip(cell.curves, cell.full_labels, strict=True)},
    }


def safe_json(data: Any) -> str:
    """JSON that may stand inside a script element: no text in it can end the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
