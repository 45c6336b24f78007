"""The local learning rate: a number, a number for each round, or a function of the round."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from driftless.errors import InputError, check_range, doing

LearningRate = float | Sequence[float] | Callable[[int], float]


def checked(lr: LearningRate) -> LearningRate:
    """The same with a list as a tuple: settings do not change. What a function returns is checked by `rate_at`."""
    if callable(lr):
        return lr
    if isinstance(lr, (np.ndarray, Tensor)):
        lr = lr.tolist()
    if not isinstance(lr, (list, tuple)):
        check_range("local.lr", lr, 0, math.inf, low_open=True, high_open=True)  # pyright: ignore[reportArgumentType]
        return lr
    if not lr:
        raise InputError("local.lr is an empty list; give a number, or one for each round.")
    return tuple(_of_round(t, value) for t, value in enumerate(lr, start=1))


def rate_at(lr: LearningRate, t: int) -> float:
    """Of round t; the last one of a list stays."""
    if callable(lr):
        with doing(f"calling local.lr for round {t}"):
            return _of_round(t, lr(t))
    return lr[min(t, len(lr)) - 1] if isinstance(lr, Sequence) else lr


def of_rounds(lr: LearningRate, rounds: int) -> LearningRate:
    """A function is called once for each round, before the first: its values are checked, and are the same later."""
    return tuple(rate_at(lr, t) for t in range(1, rounds + 1)) if callable(lr) else lr


def _of_round(t: int, value: float) -> float:
    check_range(f"local.lr of round {t}", value, 0, math.inf, low_open=True, high_open=True)
    return float(value)
