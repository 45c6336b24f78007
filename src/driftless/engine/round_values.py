"""A setting that may change from round to round: a number, a number for each round, or a function of the round."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from torch import Tensor

from driftless.errors import InputError, check_range, check_whole, doing

LearningRate = float | Sequence[float] | Callable[[int], float]
Steps = int | Sequence[int] | Callable[[int], int]
Number = TypeVar("Number", int, float)


class RoundValue(NamedTuple, Generic[Number]):
    """What is the same for all values of a setting."""

    name: str
    check: Callable[[str, Any], Number]
    """(name in messages, value) -> the value as a number; raises if it is not allowed."""

    def checked(self, value: Any) -> Any:
        """The same with a list as a tuple: settings do not change. What a function returns is checked by `at`."""
        if callable(value):
            return value
        if isinstance(value, (np.ndarray, Tensor)):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            self.check(self.name, value)
            return value
        if not value:
            raise InputError(f"{self.name} is an empty list; give a number, or one for each round.")
        return tuple(self._of_round(t, each) for t, each in enumerate(value, start=1))

    def at(self, value: Any, t: int) -> Number:
        """Of round t; the last one of a list stays."""
        if callable(value):
            with doing(f"calling {self.name} for round {t}"):
                return self._of_round(t, value(t))
        return value[min(t, len(value)) - 1] if isinstance(value, Sequence) else value

    def of_rounds(self, value: Any, rounds: int) -> Any:
        """A function is called once for each round, before the first: its values are checked, and stay the same."""
        return tuple(self.at(value, t) for t in range(1, rounds + 1)) if callable(value) else value

    def _of_round(self, t: int, value: Any) -> Number:
        return self.check(f"{self.name} of round {t}", value)


def positive(name: str, value: float) -> float:
    check_range(name, value, 0, math.inf, low_open=True, high_open=True)
    return float(value)


def at_least_one(name: str, value: int) -> int:
    return check_whole(name, value, 1)


LR = RoundValue("local.lr", positive)
STEPS = RoundValue("local.steps", at_least_one)
