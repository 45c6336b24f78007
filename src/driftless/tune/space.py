"""What `driftless tune` searches: for each setting a range or a list of values, written as in a TOML file.

"local.lr" = {low = 0.01, high = 1.0, log = true}    a range; whole numbers where the setting is one
"local.epochs" = {low = 1, high = 9, step = 2}       1, 3, 5, 7, 9
"algorithm.beta" = [0.2, 0.4, 0.6]                   a list
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_args, get_type_hints

from driftless.config.options import SECTIONS, Values, algorithm_class_of, known_keys
from driftless.config.resolution import full_keys, type_name
from driftless.errors import InputError, unknown

Value = bool | int | float | str
SEARCHED = ("algorithm", "local", "server", "model")
"""How to train. The other sections are about what is trained on and for how long: trials would not be comparable."""
RANGE_KEYS = ("low", "high", "log", "step")


@dataclass(frozen=True)
class Choices:
    values: tuple[Value, ...]

    def points(self) -> tuple[Value, ...]:
        return self.values

    ends = points

    def as_toml(self) -> list[Value]:
        return list(self.values)


@dataclass(frozen=True)
class Range:
    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False

    def points(self) -> tuple[Value, ...] | None:
        """The values of a grid; None for a range without steps."""
        step = self.step or (1 if self.whole else None)
        if step is None:
            return None
        count = int((self.high - self.low) / step + 1e-9) + 1
        if self.whole:
            return tuple(int(self.low + i * step) for i in range(count))
        return tuple(float(f"{self.low + i * step:.12g}") for i in range(count))  # 0.3, not 0.30000000000000004

    def ends(self) -> tuple[Value, ...]:
        return self.low, self.high

    def as_toml(self) -> dict[str, Value]:
        optional: dict[str, Value | None] = {"log": self.log, "step": self.step}
        return {"low": self.low, "high": self.high, **{name: value for name, value in optional.items() if value}}


Dimension = Choices | Range
Space = dict[str, Dimension]
"""Dimensions by the full key of the setting."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "local.lr": {"low": 0.01, "high": 1.0, "log": True},
    "server_lr": {"around": 10},
    "mu": {"low": 0.001, "high": 1.0, "log": True},
    "alpha": {"low": 0.01, "high": 1.0, "log": True},
    "beta": {"low": 0.2, "high": 0.99},
    "scaffold-momentum.beta": {"low": 0.05, "high": 1.0},
    "ghbm-theory.beta": {"low": 0.05, "high": 1.0},
    "fedhbm.beta": {"low": 0.5, "high": 1.5},
    "momentum": {"low": 0.5, "high": 0.99},
    "beta1": {"low": 0.5, "high": 0.99},
    "beta_local": {"low": 0.5, "high": 0.99},
    "beta_global": {"low": 0.5, "high": 0.99},
    "tau": {"low": 2, "high": 20},
}
"""What is searched by default: local.lr, and the algorithm's fields of these names, in ranges as papers
tune them; `algorithm.field` where one algorithm uses a name differently. around = 10 is a logarithmic range from a
tenth of the field's default to ten times it."""


def default_space(settings: Values) -> Space:
    """The table above for one algorithm; also for a user's own, as far as its fields have these names."""
    name, cls = settings["algorithm.name"], algorithm_class_of(settings)
    table = {} if "lr" in cls.local_must_be else {"local.lr": DEFAULTS["local.lr"]}
    for field in fields(cls):  # pyright: ignore[reportArgumentType]
        entry = DEFAULTS.get(f"{name}.{field.name}", DEFAULTS.get(field.name))
        if entry and "around" in entry:
            if field.default is MISSING:
                continue
            entry = {"low": field.default / entry["around"], "high": field.default * entry["around"], "log": True}
        if entry:
            table[f"algorithm.{field.name}"] = entry
    return parse_space(table, settings)


def table_of(space: Mapping[str, Any] | None) -> dict[str, Any]:
    """As in a TOML file, from Python: a tuple is a range (low, high) or (low, high, "log"), a list stays a list."""
    table: dict[str, Any] = {}
    for key, value in (space or {}).items():
        if isinstance(value, tuple):
            if len(value) not in (2, 3) or value[2:] not in ((), ("log",)):
                raise InputError(
                    f'space[{key!r}] is {value!r}; a range is (low, high) or (low, high, "log"), values are a list.'
                )
            value = {"low": value[0], "high": value[1], "log": len(value) == 3}
        table[key] = value
    return table


def parse_space(table: Mapping[str, Any], settings: Values) -> Space:
    """Keys are those of the configuration, short ones too; `settings` has the algorithm."""
    space: Space = {}
    for key, value in full_keys(table, settings).items():
        check_searched(key, settings)
        space[key] = dimension(key, value, kind_of(key, settings))
    if not space:
        raise InputError("the search space is empty; give a setting to search, e.g. space.local.lr=[0.03,0.1,0.3].")
    return space


def check_searched(key: str, settings: Values) -> None:
    section, _, name = key.partition(".")
    if section not in SEARCHED:
        raise InputError(
            f"space.{key} cannot be searched: it says what is trained on or for how long, so its values are not "
            f"comparable. Searched can be the sections {', '.join(SEARCHED)}; set {key}=VALUE instead."
        )
    if key == "algorithm.name":
        raise InputError(
            "space.algorithm.name cannot be searched, because algorithms have different settings; tune one at a time, "
            "e.g. driftless tune algorithm=scaffold, and compare the results."
        )
    allowed = known_keys(section, settings)
    if name not in allowed:
        what = (
            f"option of algorithm '{settings['algorithm.name']}'" if section == "algorithm" else f"key of '{section}'"
        )
        raise unknown(f"{what} in the search space:", name, allowed - {"name"})


def kind_of(key: str, settings: Values) -> type | None:
    """bool, int, float or str: what the setting takes; None when its declaration has no type."""
    section, _, name = key.partition(".")
    if name in SECTIONS[section].model_fields:
        annotation = SECTIONS[section].model_fields[name].annotation
    else:
        try:
            annotation = get_type_hints(algorithm_class_of(settings)).get(name)
        except NameError:  # a user's class whose annotations name something it did not import
            annotation = None
    options = get_args(annotation) or (annotation,)
    return next((kind for kind in (float, int, bool, str) if kind in options), None)


def dimension(key: str, value: Any, kind: type | None) -> Dimension:
    if isinstance(value, dict):
        return range_of(key, value, kind)
    if not isinstance(value, list):
        raise InputError(
            f"space.{key} must be a list or a range, got {value!r}; write [0.1, 0.2] or {{low = 0.1, high = 1}} (in "
            f"quotes on the command line: 'space.{key}={{low=0.1, high=1}}'). To fix it, set {key}=VALUE."
        )
    values = tuple(as_kind(key, item, kind) for item in value)
    if not values or len(set(values)) < len(values):
        raise InputError(f"space.{key} must list different values, at least one, got {value!r}.")
    return Choices(values)


def range_of(key: str, table: dict[str, Any], kind: type | None) -> Range:
    for name in table:
        if name not in RANGE_KEYS:
            raise unknown(f"key of the range space.{key}:", name, RANGE_KEYS)
    if kind in (bool, str):
        raise InputError(f"space.{key} has no order, so a range of it has no meaning; give a list of values.")
    missing = [name for name in ("low", "high") if name not in table]
    if missing:
        raise InputError(f"space.{key} has no {' and no '.join(missing)}; write {{low = ..., high = ...}}.")
    numbers = {name: as_kind(key, table[name], kind or float) for name in ("low", "high", "step") if name in table}
    low, high, step = float(numbers["low"]), float(numbers["high"]), numbers.get("step")
    log = table.get("log", False)
    if not low < high:
        raise InputError(f"space.{key} must have low < high, got low = {table['low']}, high = {table['high']}.")
    if not isinstance(log, bool):
        raise InputError(f"log of space.{key} must be true or false, got {log!r}.")
    if log and (low <= 0 or step is not None):
        raise InputError(f"space.{key} with log = true must have low > 0 and no step, got {table!r}.")
    if step is not None and not 0 < float(step) <= high - low:
        raise InputError(f"step of space.{key} must be in (0, high - low], got {step}.")
    return Range(**{**numbers, "log": log, "whole": kind is int})  # pyright: ignore[reportArgumentType]


def as_kind(key: str, value: Any, kind: type | None) -> Value:
    """The value as the setting takes it: 1 is 1.0 for a real setting."""
    allowed = {float: (int, float), int: (int,), bool: (bool,), str: (str,), None: (bool, int, float, str)}[kind]
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        wanted = "true or false" if kind is bool else type_name(kind) if kind else "a number or a text"
        raise InputError(f"every value of space.{key} must be {wanted}, got {value!r}.")
    return float(value) if kind is float else value


def grid(space: Space) -> dict[str, tuple[Value, ...]]:
    """The values of each dimension for an exhaustive search."""
    found: dict[str, tuple[Value, ...]] = {}
    for key, dim in space.items():
        points = dim.points()
        if points is None:
            raise InputError(
                f"space.{key} is a range without steps, of which a grid has no end; give a list, e.g. "
                f"space.{key}=[0.03,0.1,0.3], or a step, or use sampler=tpe."
            )
        found[key] = points
    return found
