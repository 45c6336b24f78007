"""Dependencies point one way: algorithms -> algorithm <- engine <- config <- runs <- ... <- cli.

Every import statement of the package is read, at whatever depth of a function it stands; nothing is executed.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "driftless"
# From the bottom to the top; the layers of one line do not know each other. "driftless" is the package's __init__.py.
ORDER = [
    {"errors", "random", "progress", "starting"},
    {"project"},
    {"algorithm", "data", "models"},
    {"algorithms", "engine"},
    {"final_values"},
    {"result"},
    {"simulate"},
    {"privacy"},
    {"config"},
    {"runs"},
    {"compare", "tune", "cost"},
    {"report"},
    {"experiments", "testing"},
    {"driftless"},
    {"deploy"},
    {"project.template", "deploy.template"},
    {"reproduce"},
    {"papers"},
    {"suggest"},
    {"failures"},
    {"console"},
    {"cli"},
    {"__main__"},
]
# layer: the layers it may import besides itself.
ALLOWED: dict[str, set[str]] = {
    layer: set().union(*ORDER[:level]) for level, layers in enumerate(ORDER) for layer in layers
}
ALLOWED["algorithms"] = {"algorithm", "errors"}
ALLOWED["engine"] -= {"models"}

# The layers that must stay readable without knowing any library but torch.
ONLY_TORCH = {"errors", "algorithm", "algorithms"}

HEAVY = ["matplotlib", "plotly", "jinja2", "pooch", "typer"]


def module_name(path: Path, root: Path) -> str:
    parts = ["driftless", *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module: str) -> str | None:
    """The longest row of ALLOWED that holds the module; None without a row."""
    if module == "driftless":
        return "driftless"
    parts = module.split(".")[1:]
    prefixes = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in ALLOWED), None)


def imports(path: Path, root: Path, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Line and full module name of everything a file imports; `from a import b` is a.b where that is a module."""
    package = module_name(path, root) if path.name == "__init__.py" else module_name(path, root).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - (node.level - 1)]
                base = ".".join([*parent, base] if base else parent)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in modules else base


def violations(root: Path) -> list[str]:
    found: list[str] = []
    paths = sorted(root.rglob("*.py"))
    modules = {module_name(path, root) for path in paths}
    for path in paths:
        layer = layer_of(module_name(path, root))
        if layer is None:
            found.append(f"{path.relative_to(root)} has no row in ALLOWED: add one that says what it may import")
            continue
        for line, target in imports(path, root, modules):
            where = f"{path.relative_to(root)}:{line} ({layer})"
            if target.split(".")[0] != "driftless":
                known = target.split(".")[0] in {"torch", "__future__", *sys.stdlib_module_names}
                if layer in ONLY_TORCH and not known:
                    found.append(f"{where} imports {target}: only torch and the standard library may be used here")
            elif (other := layer_of(target)) is None:
                found.append(f"{where} imports {target}, which has no row in ALLOWED")
            elif other not in ALLOWED[layer] | {layer}:
                allowed = ", ".join(sorted(ALLOWED[layer])) or "nothing"
                found.append(f"{where} imports {target}: may import {allowed}")
    return found


def test_every_module_imports_only_what_its_layer_may():
    found = violations(ROOT)
    assert not found, "\n".join(["the layering is broken:", *found])


def test_the_table_of_layers_names_only_layers_and_has_no_cycle():
    left = {layer: set(allowed) for layer, allowed in ALLOWED.items()}
    while free := [layer for layer, allowed in left.items() if not allowed & set(left)]:
        for layer in free:
            del left[layer]
    assert not left, f"these layers import one another: {sorted(left)}"
    assert set().union(*ALLOWED.values()) <= set(ALLOWED)


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("algorithm.py", "from driftless.engine import flat", "imports driftless.engine.flat"),
        ("algorithm.py", "import numpy", "imports numpy: only torch"),
        ("algorithms/fedavg.py", "from ..engine import flat", "imports driftless.engine.flat"),
        ("engine/flat.py", "def f():\n    from driftless.papers import x", "imports driftless.papers"),
        ("engine/flat.py", "from .. import cli", "imports driftless.cli"),
        ("engine/flat.py", "import driftless", "imports driftless: "),
        ("data/digits.py", "import driftless.engine.flat", "imports driftless.engine.flat"),
        ("models/__init__.py", "from ..data import digits", "imports driftless.data"),
        ("runs/__init__.py", "from driftless.papers import x", "imports driftless.papers"),
        ("surprise.py", "", "surprise.py has no row in ALLOWED"),
        ("surprise/inner.py", "", "inner.py has no row in ALLOWED"),
    ],
)
def test_an_import_against_the_direction_is_found(tmp_path: Path, file: str, source: str, complaint: str):
    skeleton = ("__init__", "cli", "algorithm", "engine/__init__", "engine/flat", "data/digits", "papers/x", file[:-3])
    for name in skeleton:
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / file).write_text(source, encoding="utf-8")
    found = violations(tmp_path)
    assert len(found) == 1
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("algorithms/fedavg.py", "import math\nimport torch\nfrom ..algorithm import Step\nfrom . import scaffold"),
        ("data/digits.py", "import numpy\nfrom driftless import random\nfrom ..random import key"),
        ("cli.py", "from driftless import __version__\nfrom driftless.papers import x"),
    ],
)
def test_an_import_along_the_direction_passes(tmp_path: Path, file: str, source: str):
    for name in ("__init__", "algorithm", "algorithms/scaffold", "random", "papers/x", file[:-3]):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / file).write_text(source, encoding="utf-8")
    assert violations(tmp_path) == []


def test_importing_driftless_loads_none_of_the_heavy_libraries():
    program = f"import sys, driftless; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == [], "import these inside the functions that need them"
