"""The type checker finds a misspelt field of a state, message or upload."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import driftless
from driftless import ALGORITHMS, AdaptiveClipping

SOURCE = Path(driftless.__file__).parent
STATES = {"server", "msg", "mean", "client", "local"}
"""Parameters of an algorithm's methods whose types differ from algorithm to algorithm."""

UNTYPED = """
from dataclasses import dataclass

from driftless import Algorithm, Model


@dataclass(frozen=True)
class Mine(Algorithm):
    server_lr: float = 0.01

    weighting = "uniform"

    def update(self, server, mean, r):
        return Model(server.x + self.server_lr * mean.delta.sign())
"""


def misspell(source: str) -> tuple[str, Counter[int]]:
    """The source with every field of a state misspelt, and how many of them there are in each line."""
    lines, misspelt = source.splitlines(), Counter[int]()
    fields = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in STATES
    ]
    for node in sorted(fields, key=lambda node: (node.end_lineno, node.end_col_offset), reverse=True):
        row, end = node.end_lineno - 1, node.end_col_offset
        lines[row] = f"{lines[row][:end]}_misspelt{lines[row][end:]}"
        misspelt[row] += 1
    return "\n".join(lines), misspelt


def errors_of_pyright(folder: Path) -> list[dict]:
    (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(SOURCE.parent)]}), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return [found for found in json.loads(done.stdout)["generalDiagnostics"] if found["severity"] == "error"]


def test_every_misspelt_field_of_every_algorithm_is_an_error_and_a_class_without_types_has_none(tmp_path: Path):
    files = {Path(sys.modules[cls.__module__].__file__) for cls in (*ALGORITHMS.values(), AdaptiveClipping)}
    expected: dict[str, Counter[int]] = {}
    for file in files:
        text, expected[file.name] = misspell(file.read_text(encoding="utf-8"))
        assert expected[file.name]
        (tmp_path / file.name).write_text(text, encoding="utf-8")
    (tmp_path / "mine.py").write_text(UNTYPED, encoding="utf-8")

    found: dict[str, Counter[int]] = {file.name: Counter() for file in files}
    for error in errors_of_pyright(tmp_path):
        name = Path(error["file"]).name
        assert "_misspelt" in error["message"], error
        found[name][error["range"]["start"]["line"]] += 1
    assert found == expected
