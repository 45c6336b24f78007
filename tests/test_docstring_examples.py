"""Every public name has a docstring that names all its parameters, and an example that runs as printed.

Public are the names in `driftless.__all__` and what the pages of docs/api show with `:::`; of a module on a page, the
names in its `__all__`.
"""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import driftless

PAGES = sorted((Path(__file__).parents[1] / "docs" / "api").glob("*.md"))
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
OTHERS = ("driftless.algorithms.",)
"""Their docstrings have another form (tests/algorithms/test_docstrings.py); their examples are run."""
WITHOUT_EXAMPLE = {
    "driftless.Facts": "an algorithm only receives it: the example is Algorithm's",
    "driftless.Plan": "an algorithm only receives it: the example is Algorithm's",
    "driftless.Round": "an algorithm only receives it: the example is Algorithm's",
    "driftless.Step": "an algorithm only receives it: the example is Algorithm's",
    "driftless.runs.trackers.MLflow": "mlflow takes seconds to import; the example is TensorBoard's",
    "driftless.runs.trackers.WandB": "wandb takes seconds to import; the example is TensorBoard's",
}


def on_pages() -> list[str]:
    return [name for page in PAGES for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)]


def found(name: str) -> Any:
    """The object of a dotted name, in the module that a page means: `driftless.simulate.simulate` is a function."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise ModuleNotFoundError(name)


def public_names() -> dict[str, Any]:
    """Functions and classes by their names; tables such as ALGORITHMS can have no docstring."""
    names = {f"driftless.{name}": getattr(driftless, name) for name in driftless.__all__}
    for name in on_pages():
        value = found(name)
        if isinstance(value, ModuleType):
            names |= {f"{name}.{each}": getattr(value, each) for each in value.__all__}
        else:
            names[name] = value
    first: dict[int, str] = {}  # one name for each object, the shortest
    for name in sorted(names, key=len):
        if callable(names[name]):
            first.setdefault(id(names[name]), name)
    return {name: names[name] for name in sorted(first.values())}


PUBLIC = public_names()
OURS = {name: value for name, value in PUBLIC.items() if not value.__module__.startswith(OTHERS)}
each_name = pytest.mark.parametrize("name", OURS)


def methods(value: Any) -> Iterator[tuple[str, Any]]:
    """The public methods that a class itself defines."""
    for name, member in vars(value).items() if isinstance(value, type) else ():
        function = getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, member


def parameters_of(value: Any) -> set[str]:
    value = getattr(value, "__func__", value)
    return {name for name in inspect.signature(value).parameters if not name.startswith("_")} - {"self", "cls"}


def documented(docstring: str, *titles: str) -> set[str]:
    """The names in these sections of a docstring."""
    names: set[str] = set()
    for title in titles:
        section = re.search(rf"^{title}:\n((?:    .*\n|\n)*)", f"{docstring}\n", re.MULTILINE)
        names |= set(re.findall(r"^    \*{0,2}(\w+):", section.group(1), re.MULTILINE) if section else ())
    return names


def docstring_of(value: Any) -> str:
    """Its own, not one that it inherits or that `dataclass` makes of its signature."""
    own = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
    made = isinstance(value, type) and (own or "").startswith(f"{value.__name__}(")
    return "" if own is None or made else inspect.cleandoc(own)


def examples_of(name: str) -> list[doctest.DocTest]:
    """Of the docstring, and for a class also of its methods and properties."""
    if name == "driftless":
        return [doctest.DocTestParser().get_doctest(driftless.__doc__ or "", {}, name, None, 0)]
    return [test for test in doctest.DocTestFinder().find(PUBLIC[name], name, module=False, globs={}) if test.examples]


def has_own_signature(value: Any) -> bool:
    """Classes without one have that of their base class; that of a protocol means nothing."""
    if getattr(value, "_is_protocol", False):
        return False
    return not isinstance(value, type) or "__init__" in vars(value) or "__new__" in vars(value)


def test_there_are_public_names_and_pages():
    assert {"driftless.simulate", "driftless.Federation", "driftless.data.optimum"} <= set(PUBLIC)
    assert set(WITHOUT_EXAMPLE) <= set(PUBLIC)


def test_every_name_of_the_package_is_on_a_page():
    shown = {id(found(name)) for name in on_pages()}
    assert [name for name in driftless.__all__ if id(getattr(driftless, name)) not in shown] == []


def test_no_name_is_on_two_pages():
    shown = on_pages()
    assert sorted({name for name in shown if shown.count(name) > 1}) == []


@each_name
def test_the_docstring_begins_with_a_sentence(name: str):
    summary, *rest = docstring_of(PUBLIC[name]).splitlines() or [""]
    assert summary.endswith((".", ":")), f"{name}: {summary!r}"
    assert not rest or not rest[0], f"{name}: the first sentence must stand in a line of its own"


@each_name
def test_the_docstring_names_every_parameter_and_no_other(name: str):
    value = PUBLIC[name]
    docstring = docstring_of(value)
    if has_own_signature(value):
        titles = ("Args", "Attributes") if isinstance(value, type) else ("Args",)
        assert parameters_of(value) - documented(docstring, *titles) == set(), f"not described in {name}"
        assert documented(docstring, "Args") - parameters_of(value) == set(), (
            f"described, but not a parameter of {name}"
        )
    if isinstance(value, type):
        for attribute in documented(docstring, "Attributes"):
            assert is_attribute(value, attribute), f"{attribute} is described, but not an attribute of {name}"


def is_attribute(value: type, name: str) -> bool:
    annotated = any(name in inspect.get_annotations(each) for each in value.__mro__)
    return annotated or hasattr(value, name) or f"self.{name}" in inspect.getsource(value)


@each_name
def test_methods_have_docstrings_that_fit_their_parameters(name: str):
    for method, value in methods(PUBLIC[name]):
        docstring = inspect.getdoc(getattr(PUBLIC[name], method)) or ""
        assert docstring, f"{name}.{method} has no docstring"
        if "Args:" in docstring or isinstance(value, classmethod):
            assert documented(docstring, "Args") == parameters_of(value), f"{name}.{method}"
        if isinstance(value, classmethod):
            assert ">>>" in docstring, f"{name}.{method} makes a {name} and has no example"


@each_name
def test_the_docstring_has_an_example(name: str):
    assert (">>>" in docstring_of(PUBLIC[name])) != (name in WITHOUT_EXAMPLE), WITHOUT_EXAMPLE.get(name, "it has none")


@pytest.mark.parametrize("name", ["driftless", *PUBLIC])
def test_the_examples_run_as_printed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for example in examples_of(name):
        lines: list[str] = []
        runner = doctest.DocTestRunner(optionflags=OPTIONS)
        write: Callable[[str], object] = lines.append
        assert runner.run(example, out=write).failed == 0, "".join(lines)
