"""The keys that a section gets from what it names: an algorithm, a data set, a partition, a model, code of the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

from driftless.algorithm import Algorithm
from driftless.config.sections import AlgorithmSection, Config, Data, Model, Section
from driftless.config.user_code import (
    Parameters,
    absolute_name,
    algorithm_class,
    is_label,
    is_only_text,
    is_own,
    own_object,
    parameters_of,
)
from driftless.data import DATASETS, PARTITIONS
from driftless.data.load import partition_used
from driftless.data.partition import DEFAULT_OPTIONS
from driftless.data.partition import SUPPLIED as PARTITION_SUPPLIED
from driftless.errors import check_type, unknown

Values = dict[str, Any]
"""Settings by their full key, such as {"local.lr": 0.1}."""
Known = TypeVar("Known")

SECTIONS: dict[str, type[Section]] = {name: type(field.default) for name, field in Config.model_fields.items()}
EXTENDED = {"algorithm": "algorithm", "data": "data set and partition", "model": "model"}
"""Sections whose keys depend on what they name, and what that is called."""
CODE_KEYS = (
    "algorithm.name", "data.name", "data.partition", "model.name", "model.output", "local.loss", "local.lr",
    "local.steps", "evaluate.metrics", "run.cohort",
)  # fmt: skip
"""Where a name may stand for code of the user."""
SUPPLIED = {"data.name": ("clients", "seed"), "data.partition": PARTITION_SUPPLIED, "model.name": ("federation",)}
"""Parameters of a user's factory that are filled in; all others are options of its section."""


def partition_of(values: Values) -> str | None:
    """The partition that is named, or the default of the data set."""
    name, named = values.get("data.name", Data().name), values.get("data.partition")
    return partition_used(name, named) if name in list(DATASETS) else named


def algorithm_name(values: Values) -> str:
    return str(values.get("algorithm.name", AlgorithmSection().name))


def algorithm_class_of(values: Values) -> type[Algorithm]:
    return algorithm_class(algorithm_name(values))


def absolute_code(values: Values, beside: Path | None) -> Values:
    """The settings that may name code, with whole paths; metrics in one text with commas become a list."""
    named = {key: values[key] for key in CODE_KEYS if key in values}
    if isinstance(metrics := named.get("evaluate.metrics"), str):
        named["evaluate.metrics"] = [name.strip() for name in metrics.split(",")]
    return {key: absolute_name(name, beside) for key, name in named.items()}


def own_code(values: Values) -> list[str]:
    """The names in a configuration that stand for code of the user."""
    named = [values.get(key) for key in CODE_KEYS]
    return [str(name) for each in named for name in (each if isinstance(each, list) else [each]) if is_own(name)]


def option_defaults(values: Values) -> Values:
    """The defaults of the algorithm's hyper-parameters and of the options of the data, by their full keys."""
    return {
        f"{section}.{name}": default
        for section in EXTENDED
        for name, default in options_of(section, values).items()
        if default is not MISSING
    }


def options_of(section: str, values: Values) -> Values:
    """The keys that a section gets from its algorithm, or its data set and partition; MISSING: no default."""
    if section == "algorithm" and is_only_text(algorithm_name(values)):
        return given_options(section, values)
    if section == "algorithm":
        return {field.name: field.default for field in fields(algorithm_class_of(values))}  # pyright: ignore[reportArgumentType]
    if section == "data":
        name, partition = values.get("data.name", Data().name), partition_of(values)
        check_type("data.name", name, str, "the name of a data set", "see driftless list datasets")
        check_type("data.partition", partition, str | None, "the name of a partition", "see driftless list partitions")
        if is_only_text(name) or is_only_text(partition):
            return given_options(section, values)
        of_data = own_options("data.name", name) if is_own(name) else known("data set", name, DATASETS).options
        if partition is None:
            return defaults_of(of_data)
        own = is_own(partition)
        of_partition = (
            own_options("data.partition", partition) if own else known("partition", partition, PARTITIONS).options
        )
        unnamed = DEFAULT_OPTIONS.get(partition, {}) if values.get("data.partition") is None else {}
        return defaults_of({**of_data, **of_partition}) | unnamed
    if section == "model":
        name = values.get("model.name", Model().name)
        if is_only_text(name):
            return given_options(section, values)
        return defaults_of(own_options("model.name", name)) if is_own(name) else {}
    return {}


def given_options(section: str, values: Values) -> Values:
    """Of code that is not read now, any option may be right."""
    return {key.partition(".")[2]: MISSING for key in values if key.startswith(f"{section}.")}


def own_options(key: str, name: str) -> Parameters:
    """The parameters of a user's factory, without those that are supplied; an object that is given has no options."""
    found = None if is_label(name) else own_object(name, f"{key.removesuffix('.name')}=FILE.py:NAME")
    return {option: p for option, p in parameters_of(found).items() if option not in SUPPLIED[key]}


def defaults_of(parameters: Parameters) -> Values:
    """MISSING: it must be given."""
    return {name: MISSING if p.default is p.empty else p.default for name, p in parameters.items()}


def known(kind: str, name: str, registry: Mapping[str, Known]) -> Known:
    if name not in registry:
        raise unknown(kind, name, registry)
    return registry[name]


def known_keys(section: str, settings: Values) -> set[str]:
    return {*SECTIONS[section].model_fields, *options_of(section, settings)}
