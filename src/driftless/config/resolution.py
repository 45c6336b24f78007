"""One TOML file = one experiment; `key=value` on the command line overrides it.

Precedence: command line > file > default. Keys are `section.key`; a key that occurs in one section only may be written
without its section (`rounds=60`), and a section's name alone sets what it names (`algorithm=adabest`). Options of the
data set, the partition and the algorithm are keys of the sections `data` and `algorithm`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from pydantic import ValidationError

from driftless.config.effective import left_open, meaning
from driftless.config.options import (
    EXTENDED,
    SECTIONS,
    Values,
    absolute_code,
    algorithm_class_of,
    algorithm_name,
    known_keys,
    option_defaults,
    options_of,
    own_code,
    partition_of,
)
from driftless.config.plain import refuse_deep_or_huge
from driftless.config.sections import AlgorithmSection, Config, Data, Model
from driftless.config.user_code import code_hashes, is_only_text
from driftless.data import PARTITIONS
from driftless.data.partition import partitions_with
from driftless.engine.local import DEFAULT_EPOCHS
from driftless.errors import InputError, unknown

MAIN_KEY = {"data": "name", "model": "name", "algorithm": "name", "engine": "kind"}
"""What a section's name alone sets."""
OTHER_NAMES = {
    "clients_per_round": "run.cohort", "C": "run.cohort (a fraction such as 0.1)", "participation": "run.cohort",
    "E": "local.epochs", "local_epochs": "local.epochs", "B": "local.batch_size", "K": "local.steps",
    "num_clients": "data.clients", "num_rounds": "run.rounds", "T": "run.rounds", "eta": "local.lr",
    "learning_rate": "local.lr", "dataset": "data.name", "strategy": "algorithm.name",
}  # fmt: skip
"""Names that other simulators use, and ours."""
REMOVED = {"engine.compile": "off"}
"""Settings that earlier versions wrote into a run's config.toml, with the value that does what is done now."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
"""Numbers as Python writes them, such as `.5`, which is not TOML."""

COMMANDS = ("compare", "tune")
"""Commands with a table of their own in a file."""
CODE = "code"
"""A table with the checksums of the user's files that code was read from."""


@dataclass(frozen=True)
class Resolved:
    """A configuration and where each value came from ("default", a file, "command line")."""

    config: Config
    source: dict[str, str]


def resolve(file: Path | None, overrides: Iterable[str]) -> Resolved:
    """The configuration of a file (if any) with `key=value` overrides."""
    from_file = flatten(file, read_toml(file)) if file else {}
    return combine([(str(file), from_file), ("command line", parse_overrides(overrides, from_file))])


def combine(layers: Iterable[tuple[str, Values]]) -> Resolved:
    """Later layers win. A setting that only makes sense for a replaced algorithm, model, data set or partition goes."""
    values: Values = {}
    source: dict[str, str] = {}
    for where, layer in layers:
        for key in obsolete(values, layer):
            del values[key], source[key]
        values |= layer
        source |= dict.fromkeys(layer, where)
    check_characters(values, source)
    check_options(values, source)
    values |= absolute_code(values, None)
    for key in ("model.weights", "faults.trace"):
        if isinstance(values.get(key), str):  # so that a run can be resumed from another folder
            values[key] = str(Path(values[key]).resolve())
    read_none(values)
    fill_in_required_training(values, source)
    fill_in_defaults(values, source)
    config = validated(values, source)
    return Resolved(config, {key: source.get(key, "default") for key in sorted(flat(config))})


def with_values(resolved: Resolved, values: Values, where: str) -> Resolved:
    """The configuration with some values replaced, and `where` as the source of those that changed."""
    before = flat(resolved.config)
    changed = {key: value for key, value in values.items() if key not in before or before[key] != value}
    source = resolved.source | dict.fromkeys(changed, where)
    kept = {key: value for key, value in before.items() if key not in obsolete(before, changed)}
    return Resolved(validated(kept | changed, source), source)


def fill_in_required_training(values: Values, source: dict[str, str]) -> None:
    """Fill in what the algorithm requires of the local training (FedSGD) where the user has set nothing."""
    if is_only_text(algorithm_name(values)):
        return
    required = algorithm_class_of(values).local_must_be
    for key, value in required.items() if isinstance(required, Mapping) else ():
        contradicted = key == "steps" and "local.epochs" in values
        if f"local.{key}" not in values and not contradicted:
            values[f"local.{key}"], source[f"local.{key}"] = value, f"algorithm {values['algorithm.name']}"


def fill_in_defaults(values: Values, source: dict[str, str]) -> None:
    """The hyper-parameters and options that were left at their defaults, so that a configuration shows all of them.

    Those of a user's algorithm may be of a kind that TOML cannot write; they stay with the class.
    """
    for key, default in option_defaults(values).items():
        if key not in values and isinstance(default, (bool, int, float, str, NoneType)):
            values[key], source[key] = default, "default"
        elif values.get(key) == "none" and not isinstance(default, str):
            values[key] = None  # TOML has no null
    if partition := partition_of(values):
        values["data.partition"] = partition
    if values.get("local.epochs") is None and values.get("local.steps") is None:
        values["local.epochs"], source["local.epochs"] = DEFAULT_EPOCHS, "default"


def read_none(values: Values) -> None:
    """TOML has no null: "none" is None for a setting that may be None, and no text."""
    for key in [key for key, value in values.items() if value == "none"]:
        section, _, name = key.partition(".")
        field = SECTIONS[section].model_fields.get(name) if section in SECTIONS else None
        kinds = get_args(field.annotation) if field else ()
        if NoneType in kinds and str not in kinds:
            values[key] = None


def flat(config: Config) -> Values:
    """Every setting by its full key."""
    return {f"{part}.{name}": value for part in SECTIONS for name, value in dict(getattr(config, part)).items()}


def obsolete(values: Values, layer: Values) -> list[str]:
    """Settings that only make sense for an algorithm, a model, a data set or a partition that the new layer replaces.

    Also epochs where the layer sets steps, and the reverse: they exclude each other.
    """

    def replaced(key: str, default: str | None) -> bool:
        before = values.get(key, default)
        return layer.get(key, before) != before

    gone: list[str] = []
    if replaced("algorithm.name", AlgorithmSection().name):
        gone += [key for key in values if key.startswith("algorithm.") and key != "algorithm.name"]
    if replaced("data.name", Data().name):
        kept = {f"data.{name}" for name in Data.model_fields} - {"data.partition"}
        gone += [key for key in values if key.startswith("data.") and key not in kept]
    elif (before := partition_of(values)) != partition_of({**values, **layer}) and before in list(PARTITIONS):
        kept = options_of("data", {**values, **layer})
        old = PARTITIONS[before].options
        gone += [f"data.{name}" for name in old if f"data.{name}" in values and name not in kept]
    if replaced("model.name", Model().name):
        gone += [key for key in values if key.startswith("model.") and key != "model.name"]
    for one, other in (("local.epochs", "local.steps"), ("local.steps", "local.epochs")):
        if one in layer and other in values and other not in layer:
            gone.append(other)
    return gone


def read_toml(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is a folder, a pipe or a device")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        refuse_deep_or_huge(tables)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"there is no configuration file '{path}'; give the path of a .toml file.") from None
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(f"'{path}' is not a TOML file of settings: {error}.") from None
    return tables


def flatten(where: Path | None, tables: Mapping[str, Any]) -> Values:
    """The settings in the tables of a file; paths of code in them are relative to it."""
    values: Values = {}
    for section, table in tables.items():
        if section == CODE:
            continue
        if section in COMMANDS:
            raise InputError(f"{where} has a table [{section}]; use: driftless {section} {where}")
        if section not in SECTIONS:
            raise unknown(f"section of {where}", section, SECTIONS)
        if not isinstance(table, dict):
            table = {MAIN_KEY[section]: table} if section in MAIN_KEY else {"": table}
        for name, value in table.items():
            if not was_removed(section, name, value):
                check_key(section, name)
                values[f"{section}.{name}"] = value
    return values | absolute_code(values, Path() if where is None else where.parent)


def was_removed(section: str, name: str, value: Any) -> bool:
    return name not in SECTIONS[section].model_fields and REMOVED.get(f"{section}.{name}") == value


def parse_overrides(overrides: Iterable[str], below: Values) -> Values:
    """`["algorithm=adabest", "local.lr=0.1"]` as settings; `below` has the file's, which short keys may refer to."""
    pairs = [split_override(text) for text in overrides]
    values: Values = {}
    for key, text in sorted(pairs, key=lambda pair: precedence(pair[0])):
        full = full_key(key, {**below, **values})
        if full in values:
            raise InputError(f"'{full}' is given twice on the command line; give it once.")
        values[full] = parse_for(full, text, {**below, **values})
    return values


def precedence(key: str) -> int:
    """What decides which other keys exist comes first: which section has `beta` depends on the algorithm."""
    if key in MAIN_KEY or key in (f"{section}.{name}" for section, name in MAIN_KEY.items()):
        return 0
    return 1 if key in ("partition", "data.partition") else 2


def parse_for(key: str, text: str, settings: Values) -> Any:
    section, _, name = key.partition(".")
    field = SECTIONS[section].model_fields.get(name)
    return parse_as(field.annotation if field else type(option_defaults(settings).get(key)), text)


def parse_as(annotation: Any, text: str) -> Any:
    """The value of a setting of this type; where a text is wanted, `output=2024` is "2024", `clipping=none` "none"."""
    allowed, value = set(get_args(annotation) or [annotation]), parse_value(text)
    fits = isinstance(value, str) or (value is None and NoneType in allowed)
    return text if str in allowed and allowed <= {str, NoneType} and not fits else value


def split_override(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"'{text}' is not of the form key=value; write for example local.lr=0.1 or rounds=60.")
    return key.strip(), value.strip()


def parse_value(text: str) -> Any:
    """TOML values as they are (numbers, true, false, [1, 2], "text"); `none` is None; anything else is text."""
    if text.lower() in ("none", "null"):
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or too many digits or brackets
        return float(text) if NUMBER.fullmatch(text) else text


def full_key(key: str, settings: Values) -> str:
    """`rounds` -> `run.rounds`, `algorithm` -> `algorithm.name`, `beta` -> `algorithm.beta` if the algorithm has it."""
    section, dot, name = key.partition(".")
    if dot:
        if section not in SECTIONS:
            raise unknown("section", section, SECTIONS)
        check_key(section, name)
        return key
    if key in MAIN_KEY:
        return f"{key}.{MAIN_KEY[key]}"
    homes = [s for s in SECTIONS if key in known_keys(s, settings) and key != MAIN_KEY.get(s)]
    if "run" in homes:
        return f"run.{key}"
    if len(homes) > 1:
        raise InputError(f"'{key}' could be {' or '.join(f'{s}.{key}' for s in homes)}; write which one you mean.")
    if homes:
        return f"{homes[0]}.{key}"
    refuse_other_name(key, key)
    refuse_option_of_partition(key, key, settings)
    every = {name for s in SECTIONS for name in known_keys(s, settings)} - {"name", "kind"}
    raise unknown("key", key, every | set(MAIN_KEY))


def full_keys(table: Mapping[str, Any], settings: Values) -> Values:
    """`{"lr": 0.1}`, `{"local.lr": 0.1}` and `{"local": {"lr": 0.1}}`, all as {"local.lr": 0.1}."""
    dotted: Values = {}
    for key, value in table.items():
        nested = key in SECTIONS and isinstance(value, dict)
        dotted |= {f"{key}.{name}": inner for name, inner in value.items()} if nested else {key: value}
    values: Values = {}
    for key, value in dotted.items():
        full = full_key(key, settings)
        if full in values:
            raise InputError(f"'{full}' is given twice, once by a short name; give it once.")
        values[full] = value
    return values


def refuse_other_name(key: str, name: str) -> None:
    if name in OTHER_NAMES:
        raise InputError(f"unknown key '{key}'; here it is called {OTHER_NAMES[name]}.")


def refuse_option_of_partition(key: str, name: str, settings: Values) -> None:
    """`alpha=0.1` where the partition is iid, or as an option of an algorithm that has none."""
    partition, having = partition_of(settings), partitions_with(name)
    if having and partition in list(PARTITIONS):
        instead = "." if partition in having else f", and the partition is {partition}; set data.partition={having[0]}."
        options = " or ".join(f"data.partition={each}" for each in having)
        raise InputError(f"unknown key '{key}'; data.{name} is an option of {options}{instead}")


def check_key(section: str, name: str) -> None:
    """Keys of the fixed sections; those of `data` and `algorithm` depend on names and are checked by check_options."""
    allowed = SECTIONS[section].model_fields
    if name not in allowed and section not in EXTENDED:
        refuse_other_name(f"{section}.{name}", name)
        raise unknown(f"key of section '{section}'", name, allowed)


def check_characters(values: Values, source: Mapping[str, str]) -> None:
    """Texts name files, and are written into files."""
    for key, value in values.items():
        if isinstance(value, str) and ("\0" in value or value.encode(errors="replace").decode() != value):
            raise InputError(f"{key} is {value!r} ({source[key]}); write it without characters that are not text.")


def check_options(values: Values, source: Mapping[str, str]) -> None:
    for section, what in EXTENDED.items():
        name = values.get(f"{section}.name", SECTIONS[section].model_fields["name"].default)
        allowed = known_keys(section, values)
        for key in values:
            inside, _, option = key.partition(".")
            if inside == section and option not in allowed:
                refuse_other_name(key, option)
                refuse_option_of_partition(key, option, values)
                error = unknown(f"option of {what} '{name}'", option, allowed - {"name"})
                raise InputError(f"{error} (It was given by: {source[key]}.)")


def validated(values: Values, source: Mapping[str, str]) -> Config:
    nested: dict[str, Values] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        nested.setdefault(section, {})[name] = value
    try:
        return Config.model_validate(nested)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"][:2])
        annotation = SECTIONS[str(first["loc"][0])].model_fields[str(first["loc"][1])].annotation
        raise InputError(
            f"{key} must be {type_name(annotation)}, got {values[key]!r} ({source[key]}); correct it there."
        ) from None


def type_name(annotation: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", NoneType: "none"}
    names |= {list[str]: "a list of texts", list[int]: "a list of whole numbers", list[float]: "a list of numbers"}
    options = [names.get(option, "lists of client numbers") for option in get_args(annotation) or [annotation]]
    return " or ".join(dict.fromkeys(options))


def to_toml(resolved: Resolved) -> str:
    """The resolved configuration as a TOML file that gives it back, each value with its source as a comment.

    What was not set, and what takes effect instead, is a comment as a whole.
    """
    lines: list[str] = []
    values = flat(resolved.config)
    defaults = option_defaults(values)
    for section in SECTIONS:
        lines.append(f"[{section}]")
        for key, where in resolved.source.items():
            if key.startswith(f"{section}."):
                value, name = values[key], key.partition(".")[2]
                field = SECTIONS[section].model_fields.get(name)
                unset = value is None and (defaults.get(key) if field is None else field.default) is None
                written = "none" if value is None else value
                text = f"# {name}{left_open(key, resolved.config)}" if unset else f"{name} = {toml_value(written)}"
                said = ": ".join(filter(None, [where, meaning(key, written)]))
                lines.append(f"{text.ljust(40)}  # {said}")
        lines.append("")
    hashes = code_hashes(own_code(values))
    code = [f"{toml_value(path)} = {toml_value(sha256)}" for path, sha256 in hashes.items()]
    return "\n".join([*lines, f"[{CODE}]", *code, ""] if code else lines)


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's escapes are JSON's
    if isinstance(value, list):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    return repr(value)
