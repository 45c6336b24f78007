"""What a user can do wrong, as exceptions whose message is the whole explanation.

Every message says what was given, what is allowed and what to do. The command line prints the message alone;
from Python they are ordinary exceptions.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


class InputError(ValueError):
    """The user's input cannot be used; raised before any work is done."""


class Diverged(RuntimeError):
    """Training produced no finite update for several rounds in a row."""

    def __init__(self, round: int, message: str) -> None:
        super().__init__(message)
        self.round = round
        self.history: Any = None
        """The rounds until then, as in a result."""
        self.events: Any = None

    def __reduce__(self):
        return type(self), (self.round, str(self))


class WorkerDied(RuntimeError):
    """A process that computed for the run has ended; what was saved can be continued."""


def unknown(kind: str, given: str, allowed: Iterable[str]) -> InputError:
    """`unknown algorithm 'scafold'; did you mean 'scaffold'? ...`: one wording for every misspelt name."""
    names = sorted(allowed)
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(given.lower(), by_lower, n=1, cutoff=0.5)
    hint = f"; did you mean '{by_lower[near[0]]}'?" if near else "."
    return InputError(f"unknown {kind} '{given}'{hint} Allowed: {', '.join(names)}.")


def check_range(
    name: str, value: float, low: float, high: float, *, low_open: bool = False, high_open: bool = False
) -> None:
    """Raise unless `value` is a number in the interval; the message prints the interval."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    above = is_number and (low < value if low_open else low <= value)
    below = is_number and (value < high if high_open else value <= high)
    if not (above and below):
        interval = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
        raise InputError(f"{name} must be a number in {interval}, got {value!r}; set it to a value in that interval.")


def check_whole(name: str, value: Any, least: int, *, other: object = ...) -> Any:
    """The value as int, if it is a whole number of at least `least` (also of numpy; True is not 1), or `other`."""
    if type(value) is type(other) and value == other:
        return value
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        instead = "" if other is ... else f" (or {json.dumps(other) if isinstance(other, str) else other})"
        raise InputError(f"{name} must be a whole number of at least {least}{instead}, got {value!r}.")
    return int(value)


def check_choice(name: str, value: object, allowed: Iterable[object]) -> None:
    """Raise unless `value` is one of the options, of the same type: True is not 1."""
    options = list(allowed)
    if not any(type(value) is type(option) and value == option for option in options):
        raise InputError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}.")
