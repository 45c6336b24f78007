"""Checks of hyper-parameters, made when an algorithm is constructed.

The messages carry the name of the class, so that a run with several algorithms says which one is meant.
"""

from __future__ import annotations

import math

from driftless.algorithm import Algorithm
from driftless.errors import check_choice, check_range, check_whole


def positive(algorithm: Algorithm, *names: str) -> None:
    """0 < value < infinity."""
    for name in names:
        check_range(_label(algorithm, name), _value(algorithm, name), 0, math.inf, low_open=True, high_open=True)


def not_negative(algorithm: Algorithm, *names: str) -> None:
    """0 <= value < infinity."""
    for name in names:
        check_range(_label(algorithm, name), _value(algorithm, name), 0, math.inf, high_open=True)


def fraction(algorithm: Algorithm, *names: str) -> None:
    """0 <= value <= 1."""
    for name in names:
        check_range(_label(algorithm, name), _value(algorithm, name), 0, 1)


def decay(algorithm: Algorithm, *names: str) -> None:
    """0 <= value < 1: an exponential average that forgets."""
    for name in names:
        check_range(_label(algorithm, name), _value(algorithm, name), 0, 1, high_open=True)


def count(algorithm: Algorithm, name: str, low: int = 1) -> None:
    """A whole number, at least `low`."""
    check_whole(_label(algorithm, name), _value(algorithm, name), low)


def choice(algorithm: Algorithm, name: str, *allowed: object) -> None:
    check_choice(_label(algorithm, name), _value(algorithm, name), allowed)


def _label(algorithm: Algorithm, name: str) -> str:
    return f"{name} of {type(algorithm).__name__}"


def _value(algorithm: Algorithm, name: str):
    return getattr(algorithm, name)
