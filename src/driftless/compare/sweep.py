"""The cells of a sweep: every combination of the values of the swept keys, `sweep.data.alpha=[0.1,1]`."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from driftless.compare.variants import free, split_at_commas
from driftless.config.options import Values
from driftless.config.resolution import MAIN_KEY, Resolved, combine, flat, full_keys, parse_for
from driftless.config.sections import is_experiment
from driftless.errors import InputError, short_repr

Sweep = Mapping[str, Sequence[Any]]
"""The values by the full key of the setting."""
OTHERWISE = {
    "run.seed": "seeds=N plays the seeds that follow run.seed",
    "data.seed": "seeds=N plays the seeds that follow run.seed, with data divided anew",
    "algorithm.name": "name the algorithms: driftless compare fedavg scaffold",
}
"""What cannot be swept, and what to do instead."""
LONGEST_FOLDER = 100


def parse_sweep(table: Mapping[str, Any], configurations: Mapping[str, Resolved]) -> Sweep:
    """Keys are those of the configuration, short ones too, and the same for every configuration."""
    if not table:
        return {}
    found = {name: sweep_of(name, table, resolved) for name, resolved in configurations.items()}
    first, *others = found
    for other in others:
        if list(found[other]) != list(found[first]):
            raise InputError(
                f"the sweep is over {', '.join(found[first])} for {first}, and over {', '.join(found[other])} for "
                f"{other}; write the keys with their sections, such as sweep.data.alpha=[0.1,1]."
            )
    return found[first]


def sweep_of(name: str, table: Mapping[str, Any], resolved: Resolved) -> Sweep:
    settings = flat(resolved.config)
    try:
        keys = full_keys(table, settings)
    except InputError as error:
        raise InputError(f"the sweep does not fit {name}: {error}") from None
    for key in keys:
        check_swept(key)
    return {key: values_of(key, value, settings) for key, value in keys.items()}


def check_swept(key: str) -> None:
    if key in OTHERWISE or not is_experiment(key):
        instead = OTHERWISE.get(key, "it changes no result")
        raise InputError(f"sweep.{key} cannot be swept: {instead}. Leave it out of the sweep.")


def refuse_given(sweep: Sweep, configurations: Mapping[str, Resolved]) -> None:
    for key in sweep:
        for name, resolved in configurations.items():
            where = resolved.source.get(key, "default")
            if where != "default":
                raise InputError(f"'{key}' is swept, and also given for {name} ({where}); leave one of them out.")


def values_of(key: str, given: Any, settings: Values) -> list[Any]:
    """A list, or its text: `[iid,dirichlet]` is none in TOML, which wants quotes."""
    if isinstance(given, str) and given.startswith("[") and given.endswith("]"):
        given = split_at_commas(given[1:-1])
    if not isinstance(given, list | tuple) or not given or "" in given:
        raise InputError(
            f"sweep.{key} must be a list of values such as [0.1, 1], got {short_repr(given)}; write it in brackets."
        )
    values = [parse_for(key, value, settings) if isinstance(value, str) else value for value in given]
    for position, value in enumerate(values):
        if value in values[:position]:
            raise InputError(f"sweep.{key} holds {short_repr(value)} twice; give each value once.")
    return values


def number_of_cells(sweep: Sweep) -> int:
    return math.prod(map(len, sweep.values()))


def cells_of(sweep: Sweep) -> list[Values]:
    """The last key changes fastest; without a sweep one cell that changes nothing."""
    return [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]


def in_cell(resolved: Resolved, cell: Values) -> Resolved:
    """The configuration with the cell's values as if they had been given with the others."""
    given = {key: value for key, value in flat(resolved.config).items() if resolved.source[key] != "default"}
    again = combine([("", given), ("the sweep", cell)])
    return Resolved(again.config, {key: where or resolved.source[key] for key, where in again.source.items()})


def cell_name(cell: Values) -> str:
    """ "alpha=0.1,cohort=5": as short as the keys can be told apart."""
    short = {key: key.partition(".")[0] if is_main(key) else key.partition(".")[2] for key in cell}
    names = {key: key if list(short.values()).count(name) > 1 else name for key, name in short.items()}
    return ",".join(f"{names[key]}={value_text(value)}" for key, value in cell.items())


def is_main(key: str) -> bool:
    section, _, name = key.partition(".")
    return MAIN_KEY.get(section) == name


def value_text(value: object) -> str:
    """A setting's value as it is written on the command line."""
    if value is None or isinstance(value, bool | list):
        return "none" if value is None else json.dumps(value, separators=(",", ":"), default=str)
    return str(value)


def cell_folders(cells: Iterable[Values]) -> list[str]:
    """The names of the cells as names of folders, each once; none for the cell that changes nothing."""
    folders: list[str] = []
    for cell in cells:
        safe = re.sub(r"[^\w.,=+-]+", "-", cell_name(cell))[:LONGEST_FOLDER]
        folders.append(free(safe, folders) if safe else "")
    return folders
