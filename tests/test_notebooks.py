"""The notebooks of the documentation run, and what is stored in them is clean."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)

ABSOLUTE_PATH = re.compile(r"(?<![\w./<:])/(?:home|work|tmp|root|Users|usr|opt|var|private|mnt)/|[A-Z]:\\\\")


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.slow
@every_notebook
def test_the_notebook_runs_in_an_empty_folder(file: Path, tmp_path: Path):
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(
        notebook, timeout=500, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()


@every_notebook
def test_the_notebook_is_valid_and_its_cells_have_names(file: Path):
    notebook = nbformat.read(file, as_version=nbformat.NO_CONVERT)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    nbformat.validate(notebook)
    assert all("execution" not in cell.metadata for cell in notebook.cells), "remove the times of execution"


@every_notebook
def test_the_stored_outputs_have_no_errors_and_no_absolute_paths(file: Path):
    cells = [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs, "execute the notebook before it is stored"
    assert all(cell.execution_count for cell in cells)
    assert [output for output in outputs if output.output_type == "error"] == []
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    assert ABSOLUTE_PATH.findall(json.dumps(outputs)) == []


@every_notebook
def test_links_in_the_notebook_lead_somewhere(file: Path):
    text = "\n".join(cell.source for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "markdown")
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [target for target in targets if not (file.parent / target).exists()] == []
