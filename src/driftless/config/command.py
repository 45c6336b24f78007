"""The options of a command that plays several runs, apart from the settings of these runs.

In a file they are a table, `[compare]` or `[tune]`; on the command line they stand beside the settings: `seeds=5`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from driftless.config.options import Values
from driftless.config.resolution import COMMANDS, flatten, parse_as, read_toml
from driftless.config.sections import Section
from driftless.errors import InputError, unknown

Options = TypeVar("Options", bound=Section)


def command_options(
    cls: type[Options], command: str, file: Path | None, overrides: Iterable[str]
) -> tuple[Options, Values, list[str]]:
    """The options of the command, the settings in the file, and the overrides that are settings."""
    tables = read_toml(file) if file else {}
    settings = flatten(file, {name: table for name, table in tables.items() if name not in COMMANDS})
    table = tables.get(command, {})
    if not isinstance(table, dict):
        raise InputError(f"'{command}' of {file} must be a table: write [{command}] and its keys below it.")
    given, rest = split_overrides(cls, command, overrides)
    for key, value in given.items():
        option, dot, inner = key.partition(".")
        before = table.get(option)
        table[option] = {**(before if isinstance(before, dict) else {}), inner: value} if dot else value
    return validated_options(cls, command, table), settings, rest


def split_overrides(cls: type[Section], command: str, overrides: Iterable[str]) -> tuple[Values, list[str]]:
    """`trials=20` or `tune.trials=20`, of an option that is a table also `space.local.lr=[...]`; and all others."""
    own: Values = {}
    rest: list[str] = []
    for text in overrides:
        given, _, value = text.partition("=")
        key = given.strip().removeprefix(f"{command}.")
        field = cls.model_fields.get(key.partition(".")[0])
        if field is None and key == given.strip():
            rest.append(text)
        elif key in own:
            raise InputError(f"'{key}' is given twice on the command line; give it once.")
        else:
            own[key] = parse_as(field.annotation if field else None, value.strip())
    return own, rest


def validated_options(cls: type[Options], command: str, table: dict[str, Any]) -> Options:
    for key in table:
        if key not in cls.model_fields:
            raise unknown(f"key of section '{command}'", key, cls.model_fields)
    try:
        return cls.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise InputError(f"{command}.{key} is {first['input']!r}: {first['msg'].lower()}; correct it.") from None
