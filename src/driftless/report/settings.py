"""The settings of stored runs, read from config.toml as text: a run's code and data are not needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NamedTuple

from driftless.algorithms import ALGORITHMS
from driftless.config.options import SECTIONS
from driftless.config.resolution import CODE, flat, read_none, read_toml
from driftless.config.sections import Config, is_experiment
from driftless.config.stored import earlier_defaults
from driftless.data import DATASETS, PARTITIONS
from driftless.errors import InputError
from driftless.report.metrics import short
from driftless.runs.directory import CONFIG

Settings = dict[str, Any]
"""By their full key, such as {"local.lr": 0.1}."""

NEEDED = {
    "run.seed": int, "data.seed": int | None, "run.rounds": int,
    "run.label": str | None, "algorithm.name": str, "model.name": str, "data.name": str, "data.partition": str | None,
    "evaluate.monitor": str | None, "evaluate.mode": str | None,
}  # fmt: skip
"""What is used as more than a text, with its type."""
SEEDS = ("run.seed", "data.seed")
JUDGING = ("evaluate.metrics", "evaluate.monitor", "evaluate.mode")
"""Settings that change what is said about a result, not the result."""
LABEL = "run.label"
ALGORITHM = "algorithm."


class Setting(NamedTuple):
    key: str
    values: list[str]
    """One for each curve, or a single one."""


def read_settings(folder: Path) -> Settings:
    """All settings of a run, without hyper-parameters and options at their defaults.

    The defaults of a user's own algorithm are not known without its code, so its hyper-parameters all stay.
    """
    given: Settings = {}
    for section, table in read_toml(folder / CONFIG).items():
        if not isinstance(table, dict):
            raise InputError(f"'{section}' of {folder / CONFIG} must be a table; put the file back.")
        given |= {f"{section}.{name}": value for name, value in table.items() if section != CODE}
    read_none(given)
    settings = flat(Config()) | earlier_defaults(given) | given
    for key, kinds in NEEDED.items():
        if not isinstance(settings[key], kinds):
            raise InputError(f"{key} of {folder / CONFIG} cannot be {settings[key]!r}; put the file back.")
    defaults = option_defaults(settings)
    return {key: settings[key] for key in in_order(settings) if key not in defaults or settings[key] != defaults[key]}


def option_defaults(settings: Settings) -> Settings:
    """The defaults of the hyper-parameters of our algorithms and of the options of the data."""
    defaults: Settings = {}
    if algorithm := ALGORITHMS.get(settings["algorithm.name"]):
        defaults |= {f"algorithm.{field.name}": field.default for field in fields(algorithm)}  # pyright: ignore[reportArgumentType]
    for known, name in ((DATASETS, settings["data.name"]), (PARTITIONS, settings["data.partition"])):
        if name in known:
            defaults |= {f"data.{option}": each.default for option, each in known[name].options.items()}
    return {key: value for key, value in defaults.items() if value is not MISSING}


def in_order(keys: Iterable[str]) -> list[str]:
    """Section by section."""
    sections = list(SECTIONS)

    def position(key: str) -> int:
        section = key.partition(".")[0]
        return sections.index(section) if section in sections else len(sections)

    return sorted(keys, key=position)


def changes_result(key: str) -> bool:
    return is_experiment(key) and key not in JUDGING


def identity(settings: Settings) -> Settings:
    """What must be equal within a curve."""
    return {key: value for key, value in settings.items() if key == LABEL or (key not in SEEDS and changes_result(key))}


def key_of(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True, default=str)


def differences(settings: Sequence[Settings]) -> list[str]:
    """The keys whose value is not the same in all experiments, section by section."""
    keys = in_order(key for key in dict.fromkeys(key for each in settings for key in each) if changes_result(key))
    absent = object()
    return [key for key in keys if any(s.get(key, absent) != settings[0].get(key, absent) for s in settings)]


def labels(algorithms: Sequence[str], settings: Sequence[Settings]) -> list[str]:
    """The run's own label or the algorithm's name, and the settings that differ where several curves have the same."""
    given = [own.get(LABEL) or algorithm for algorithm, own in zip(algorithms, settings, strict=True)]
    names: list[str] = []
    for name, own in zip(given, settings, strict=True):
        same = [s for n, s in zip(given, settings, strict=True) if n == name]
        parts = [f"{key}={text_of(own, key)}" for key in differences(same)]
        names.append(" ".join([algorithm_label(name), *parts]))
    # Shortened values and files of the same name in two folders give equal labels.
    return [n if names.count(n) == 1 else f"{n} ({names[: i + 1].count(n)})" for i, n in enumerate(names)]


def algorithm_label(name: str) -> str:
    """The name; of a user's class in a file, without the file's folders: my.py:Mine."""
    return Path(name).name if ".py:" in name else name


def text_of(settings: Settings, key: str) -> str:
    return short(settings[key]) if key in settings else "default"


def settings_tables(settings: Sequence[Settings]) -> tuple[list[Setting], list[Setting]]:
    """(those that differ between the curves, with a value for each; those that all share).

    Of the algorithm, whose name the labels show, the options that differ are one setting: few algorithms share them.
    """
    differ = differences(settings)
    options = [key for key in differ if key.startswith(ALGORITHM) and key != f"{ALGORITHM}name"]
    differing = [Setting("algorithm options", [options_text(each, options) for each in settings])] if options else []
    differing += [Setting(k, [text_of(each, k) for each in settings]) for k in differ if not k.startswith(ALGORITHM)]
    shared = [Setting(k, [short(v)]) for k, v in settings[0].items() if k not in differ and changes_result(k)]
    return differing, shared


def options_text(settings: Settings, keys: Iterable[str]) -> str:
    given = [f"{key.removeprefix(ALGORITHM)} = {short(settings[key])}" for key in keys if key in settings]
    return ", ".join(given) or "default"
