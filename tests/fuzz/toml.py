"""Random configuration files."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from driftless import ALGORITHMS
from driftless.config.resolution import SECTIONS, toml_value
from driftless.data import DATASETS, PARTITIONS
from driftless.models import MODELS
from fuzz.fuzzing import TINY, values

SMALL_NAMES = {
    "algorithm": st.sampled_from(sorted(ALGORITHMS)),
    "data": st.sampled_from(["digits", "digits", "quadratics", "linear-regression", "mnist-of-nobody"]),
    "model": st.sampled_from(["logistic", "linear", "mlp", "resnet", *sorted(MODELS)[:2]]),
    "engine": st.sampled_from(["auto", "block", "single"]),
}
OPTIONS = sorted(
    {name for source in (*DATASETS.values(), *PARTITIONS.values()) for name in source.options}
    | {name for cls in ALGORITHMS.values() for name in cls.__dataclass_fields__}
)


def keys(section: str) -> st.SearchStrategy[str]:
    extended = OPTIONS if section in ("data", "algorithm") else ["nothing"]
    return st.sampled_from(sorted(SECTIONS[section].model_fields)) | st.sampled_from(extended)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """A tiny run with one to three settings that are not what they should be."""
    tables = {name: dict(table) for name, table in TINY.items()}
    if draw(st.booleans()):
        section = draw(st.sampled_from(sorted(SMALL_NAMES)))
        key = "kind" if section == "engine" else "name"
        tables.setdefault(section, {})[key] = draw(SMALL_NAMES[section])
    for _ in range(draw(st.integers(1, 3))):
        section = draw(st.sampled_from(sorted(SECTIONS)))
        name = draw(keys(section))
        value = draw(values)
        if takes_long(f"{section}.{name}", value):
            continue
        tables.setdefault(section, {})[name] = value
    return tables


def takes_long(key: str, value: Any) -> bool:
    """What is allowed, and long: processes that are forked, an evaluation of nothing."""
    return key == "engine.workers" and value == 2


def file_of(tables: dict[str, dict[str, Any]]) -> bytes:
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
