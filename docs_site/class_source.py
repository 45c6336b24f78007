"""The source of an algorithm, method by method, with what else of its file it uses."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap

from driftless import Algorithm


def methods(cls: type[Algorithm]) -> dict[str, str]:
    """The methods that it, or a class between it and Algorithm, defines."""
    found: dict[str, str] = {}
    for owner in cls.__mro__:
        if owner is Algorithm:
            break
        for name, value in vars(owner).items():
            if inspect.isfunction(value) and not name.startswith("__"):
                found.setdefault(name, textwrap.dedent(inspect.getsource(value)).rstrip())
    return found


def used_definitions(cls: type[Algorithm]) -> list[str]:
    """Functions and NamedTuples of its file that its methods use, directly or through one another, as they stand."""
    file = sys.modules[cls.__module__].__file__
    assert file
    with open(file, encoding="utf-8") as stream:
        text = stream.read()
    defined = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    wanted, found = [cls.__name__], set[str]()
    while wanted:
        name = wanted.pop()
        found.add(name)
        inside = {node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)}
        wanted += [other for other in inside if other in defined and other not in found]
    lines = text.splitlines()
    return [
        "\n".join(lines[first_line(node) - 1 : node.end_lineno])
        for name, node in defined.items()
        if name in found - {cls.__name__}
    ]


def first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
