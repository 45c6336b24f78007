"""What a user can do wrong, as exceptions whose message is the whole explanation.

Every message says what was given, what is allowed and what to do. The command line prints the message alone;
from Python they are ordinary exceptions.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

LARGEST = 10**9
"""The largest number of rounds, steps, clients or examples that a setting may have."""
LARGEST_SEED = 2**63 - 1


class InputError(ValueError):
    """The user's input cannot be used; raised before any work is done.

    The message says what was given, what is allowed and what to do. It is a `ValueError`.

    Examples:
        >>> import driftless
        >>> try:
        ...     driftless.load("digit")
        ... except driftless.InputError as error:
        ...     print(error)
        unknown data set 'digit'; did you mean 'digits'? Allowed: ...
    """


class Diverged(RuntimeError):
    """Training produced no finite update for several rounds in a row. It is a `RuntimeError`.

    Args:
        round: The last round.
        message: What happened, and what may help.

    Attributes:
        round: The last round.
        history: The rounds until then, as in a `Result`; None where there is none.
        events: What happened until then, as in a `Result`; None where there is none.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> local = driftless.LocalTraining(lr=1e30, epochs=1)
        >>> try:
        ...     driftless.simulate("fedavg", federation, "mlp", rounds=10, cohort=5, local=local)
        ... except driftless.Diverged as error:
        ...     print(error.round <= 10, len(error.events) > 0)
        True True
    """

    def __init__(self, round: int, message: str) -> None:
        super().__init__(message)
        self.round = round
        self.history: Any = None
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
    if isinstance(value, int) and abs(value) >= 2**63:  # torch takes it for an integer of 64 bits
        raise InputError(
            f"{name} is {short_repr(value)}, an integer beyond 64 bits; write it as a float, such as 1e30."
        )
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    above = low < number if low_open else low <= number
    below = number < high if high_open else number <= high
    if not (above and below):
        interval = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
        raise InputError(
            f"{name} must be a number in {interval}, got {short_repr(value)}; set it to a value in that interval."
        )


def check_whole(name: str, value: Any, least: int, *, most: int = LARGEST, other: object = ...) -> Any:
    """The value as int, if it is a whole number in the interval (also of numpy; True is not 1), or `other`."""
    if type(value) is type(other) and value == other:
        return value
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        instead = "" if other is ... else f" (or {json.dumps(other) if isinstance(other, str) else other})"
        raise InputError(f"{name} must be a whole number of at least {least}{instead}, got {short_repr(value)}.")
    if int(value) > most:
        raise InputError(f"{name} must be a whole number of at most {most}, got {short_repr(value)}.")
    return int(value)


def check_choice(name: str, value: object, allowed: Iterable[object]) -> None:
    """Raise unless `value` is one of the options, of the same type: True is not 1."""
    options = list(allowed)
    if not any(type(value) is type(option) and value == option for option in options):
        raise InputError(f"{name} must be one of {', '.join(map(repr, options))}, got {short_repr(value)}.")


def check_type(name: str, value: object, allowed: Any, wanted: str, remedy: str) -> None:
    if not isinstance(value, allowed):
        given = short_repr(value)
        given = given if len(given) < 60 and "\n" not in given else f"a {type(value).__name__}"
        raise InputError(f"{name} must be {wanted}, got {given}; {remedy}.")


def short_repr(value: object, most: int = 60) -> str:
    """`repr`, cut where it is too long for a message; Python does not write out integers of thousands of digits."""
    try:
        text = repr(value)
    except ValueError:
        return "an integer of thousands of digits"
    return text if len(text) <= most else f"{text[:most]}..."


@contextmanager
def doing(what: str) -> Generator[None]:
    """An error that is raised inside, other than ours, says what driftless was doing, as a note below its traceback."""
    try:
        yield
    except (InputError, Diverged, WorkerDied):
        raise
    except Exception as error:
        error.add_note(f"driftless was {what}")
        raise


def is_out_of_memory(error: BaseException) -> bool:
    """Of Python, numpy or torch."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
