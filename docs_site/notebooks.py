"""Notebooks as pages: their text, code, and stored outputs with pictures."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import nbformat
from nbconvert import MarkdownExporter


class Page(NamedTuple):
    text: str
    pictures: dict[str, bytes]
    """By the name in the text."""


def page(file: Path) -> Page:
    exporter = MarkdownExporter()
    notebook = nbformat.read(file, as_version=4)
    text, resources = exporter.from_notebook_node(notebook, resources={"output_files_dir": f"{file.stem}_pictures"})
    title, _, rest = text.partition("\n")
    note = f"This page is a notebook: [{file.name}]({file.name}) can be opened in Jupyter.\n"
    return Page(f"{title}\n\n{note}\n{rest}", dict(resources.get("outputs", {})))
