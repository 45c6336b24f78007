"""Intervals from a few seeds, and how often one may look at them.

An experiment adds seeds one by one until its claims are decided. Looking after each seed would give chance one more
throw each time; therefore each look has a smaller error than all of them together may have (Pocock's boundary, computed
here for the t statistic, whose distribution does not depend on the unknown spread). The intervals are the repeated
confidence intervals of Jennison and Turnbull: they are valid at whichever look an experiment stops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from driftless.random import stream

Floats = NDArray[np.float64]

ERROR = 0.05
"""Of a verdict, over all looks."""
SIMULATED = 200_000
MOST_SEEDS = 200
"""Beyond it the number of seeds that would be needed is not counted."""


class Interval(NamedTuple):
    low: float
    mean: float
    high: float


EVERYTHING = Interval(-math.inf, math.nan, math.inf)


@lru_cache
def error_of_a_look(first: int, last: int) -> float:
    """What each look may err, so that looking with `first`, ..., `last` seeds errs with probability ERROR in all."""
    if first >= last:
        return ERROR
    values = stream(0, "repeated looks").standard_normal((SIMULATED, last))
    looks = np.arange(max(first, 2), last + 1)
    means = values.cumsum(1)[:, looks - 1] / looks
    variances = (np.square(values).cumsum(1)[:, looks - 1] - looks * means**2) / (looks - 1)
    smallest = 2 * stats.t.sf(np.abs(means) / np.sqrt(variances / looks), looks - 1).min(1)
    return float(np.quantile(smallest, ERROR))


@lru_cache
def t_quantile(error: float, n: int) -> float:
    """Of n values, two-sided."""
    return float(stats.t.isf(error / 2, n - 1))


def t_interval(values: Floats, error: float) -> Interval:
    """Of the mean; everything for a single value."""
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return EVERYTHING._replace(mean=mean)
    half = t_quantile(error, n) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Interval(mean - half, mean, mean + half)


def share_interval(hits: int, of: int, error: float) -> Interval:
    """Of a probability, after Clopper and Pearson: exact, never too short."""
    if not of:
        return Interval(0.0, math.nan, 1.0)
    low = float(stats.beta.ppf(error / 2, hits, of - hits + 1)) if hits else 0.0
    high = float(stats.beta.isf(error / 2, hits + 1, of - hits)) if hits < of else 1.0
    return Interval(low, hits / of, high)


def has_no_spread(values: Floats) -> bool:
    """Several that are the same up to rounding: a t interval would have no width."""
    return len(values) > 1 and bool(np.ptp(values) <= 1e-9 * np.abs(values).max())


def seeds_until(excludes_zero: Callable[[int], bool], seeds: int) -> int | None:
    """How many more seeds are needed if what was seen goes on; None if more than can be afforded."""
    return next((n - seeds for n in range(seeds + 1, MOST_SEEDS + 1) if excludes_zero(n)), None)


def t_excludes_zero(mean: float, std: float, n: int, error: float) -> bool:
    return abs(mean) > t_quantile(error, n) * std / math.sqrt(n)


def share_excludes(limit: float, share: float, n: int, error: float) -> bool:
    low, _, high = share_interval(round(share * n), n, error)
    return not low <= limit <= high
