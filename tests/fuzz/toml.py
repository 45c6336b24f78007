"""Random configurations: tiny runs of any algorithm, with a few settings that are not what they should be."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from driftless import ALGORITHMS
from driftless.config.options import SECTIONS, options_of
from driftless.config.resolution import flat, resolve, toml_value
from fuzz.fuzzing import values

Tables = dict[str, dict[str, Any]]

WHOLE = [0, -1, 1, 2, 3, 7, True, 1.5, "2", 10**9 + 1, 10**12, 10**20, 10**40, -(10**40), float("nan"), "x", [], None]
NUMBERS = [0, -1, 1, 2, 0.5, 1.0, 1e-308, 1e-30, 1e9, 1e30, 1e308, -1e308, float("inf"), float("nan"), 10**20, 10**400]
TEXTS = [
    "auto", "none", "sqrt", "linear", "adaptive", "examples", "uniform", "clients", "aggregate", "bootstrap", "drop",
    "base", "diurnal", "client", "nan", "scale", "sign-flip", "label-flip", "a.csv", "median", "krum",
    "cyclic:2", "cyclic:0", "doubling:1,1,2", "doubling:2,1,1", "0.1", "float64", "sgdm", "adam", "flip", "",
    "x", "\x00",
]  # fmt: skip
DATA = [
    ({"name": "digits", "clients": 20}, "logistic"),
    ({"name": "digits", "clients": 20, "partition": "dirichlet", "alpha": 0.5}, "logistic"),
    ({"name": "digits", "clients": 20, "partition": "shards"}, "logistic"),
    ({"name": "quadratics"}, "linear"),
    ({"name": "linear-regression"}, "linear"),
]
UNUSUAL = ["algorithm.name", "data.name", "model.name", "model.weights", "run.nothing", "nothing.name", "run.output"]


def fitting(default: Any) -> st.SearchStrategy[Any]:
    """Values of about the kind that a setting should have."""
    if isinstance(default, bool):
        return st.booleans() | values
    if isinstance(default, int):
        return st.sampled_from(WHOLE)
    if isinstance(default, float):
        return st.sampled_from(NUMBERS) | st.floats(0, 2)
    if isinstance(default, str):
        return st.sampled_from(TEXTS)
    return st.sampled_from(WHOLE) | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS) | values


@st.composite
def tables(draw: st.DrawFn) -> Tables:
    """A run of some milliseconds in which one to three settings were replaced."""
    data, model = draw(st.sampled_from(DATA))
    tables: Tables = {
        "algorithm": {"name": draw(st.sampled_from(sorted(ALGORITHMS)))},
        "data": dict(data),
        "model": {"name": model},
        "engine": {"workers": 1, "kind": draw(st.sampled_from(["auto", "block", "single"]))},
        "run": {"rounds": 2, "cohort": 2},
    }
    settings = known_settings(tables)
    for _ in range(draw(st.integers(1, 3))):
        key = draw(st.sampled_from([*sorted(settings), *UNUSUAL]))
        section, _, name = key.partition(".")
        value = draw(fitting(settings.get(key)))
        if value is not None and not takes_long(key, value):
            tables.setdefault(section, {})[name] = value
    return tables


def known_settings(tables: Tables) -> dict[str, Any]:
    """Every setting that such a run has, with its default."""
    given = {f"{section}.{name}": value for section, table in tables.items() for name, value in table.items()}
    own = {f"{section}.{name}": value for section in SECTIONS for name, value in options_of(section, given).items()}
    named = {key for key in given if key.endswith(".name")} | {"data.partition"}
    return {key: value for key, value in {**flat(resolve(None, []).config), **own}.items() if key not in named}


def takes_long(key: str, value: Any) -> bool:
    """What is allowed, and long: processes that are forked."""
    return key.endswith("workers") and value in (2, 3, 7)


def file_of(tables: Tables) -> bytes:
    lines: list[str] = []
    for section, table in tables.items():
        lines.append(f"[{section}]")
        lines += [f"{toml_value(name)} = {as_toml(value)}" for name, value in table.items()]
    return ("\n".join(lines) + "\n").encode(errors="surrogateescape")


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_value(key)} = {as_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return toml_value(value)
