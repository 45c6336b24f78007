"""Differences between algorithms, paired over seeds: two runs with the same seed share data, x^0 and cohorts.

Of each pair of curves the differences of the seeds that both have are taken. Their mean has a 95 % confidence interval:
that of the paired t test, from TEN seeds on the bias-corrected and accelerated bootstrap, which does not need normal
differences. "Better" or "worse" is said only where the interval excludes 0. Each interval is for its pair alone: among
twenty pairs of equals, one is expected to exclude 0.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftless.random import stream
from driftless.report.metrics import Better

Verdict = Literal["better", "worse", "not distinguishable"]
Method = Literal["paired t", "bootstrap"]
Against = Literal["fedavg", "best"]
AGAINST: tuple[Against, ...] = ("fedavg", "best")
ValueOfSeed = Mapping[Hashable, float | None]
"""By seed the value of a run; None if it diverged. A run that has not ended is not there."""

CONFIDENCE = 0.95
TEN = 10
RESAMPLES = 9999
NO_SPREAD = 1e-9
"""Differences that vary by less than this, relative to the values, differ by rounding."""


class Difference(NamedTuple):
    """Of one curve to another."""

    against: Against
    reference: str
    """Label of the other curve."""
    mean: float
    low: float | None
    """None: the seeds show no spread, so there is no interval."""
    high: float | None
    seeds: int
    """That both have."""
    method: Method | None
    verdict: Verdict
    diverged: int
    """Seeds that both have played and that are left out because a run diverged."""

    @property
    def half(self) -> float | None:
        """Half the width of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def differences(
    curves: Mapping[str, ValueOfSeed], baseline: str | None, better: Better
) -> dict[str, tuple[Difference, ...]]:
    """By label the differences of each curve to the baseline and to the curve with the best mean."""
    references: dict[str, Against] = {} if baseline is None else {baseline: "fedavg"}
    if best := best_of(curves, better):
        references.setdefault(best, "best")
    return {
        label: tuple(
            found
            for reference, against in references.items()
            if reference != label
            and (found := difference(own, curves[reference], better, against, reference)) is not None
        )
        for label, own in curves.items()
    }


def best_of(curves: Mapping[str, ValueOfSeed], better: Better) -> str | None:
    means = {label: statistics.fmean(known) for label, own in curves.items()
             if (known := [value for value in own.values() if value is not None])}  # fmt: skip
    return (max if better == "high" else min)(means, key=lambda label: means[label]) if means else None


def difference(
    own: ValueOfSeed, other: ValueOfSeed, better: Better, against: Against, reference: str
) -> Difference | None:
    """None with fewer than two seeds that both have."""
    both = [(own[seed], other[seed]) for seed in own if seed in other]
    pairs = [(a, b) for a, b in both if a is not None and b is not None]
    if len(pairs) < 2:
        return None
    values = np.array(pairs)
    size = float(np.abs(values).max()) or 1.0  # losses of runs about to diverge have squares that are infinite
    interval, method = interval_of(values / size)
    low, high = (None, None) if interval is None else (interval[0] * size, interval[1] * size)
    mean = float(np.mean(values[:, 0] / size - values[:, 1] / size)) * size
    return Difference(
        against, reference, mean, low, high, len(pairs), method, verdict(interval, better), len(both) - len(pairs)
    )


def interval_of(pairs: NDArray[np.float64]) -> tuple[tuple[float, float] | None, Method | None]:
    """Of values up to 1, [seeds, 2]."""
    from scipy import stats

    differences = pairs[:, 0] - pairs[:, 1]
    if np.ptp(differences) <= NO_SPREAD:
        return None, None
    if len(pairs) < TEN:
        found = stats.ttest_rel(pairs[:, 0], pairs[:, 1]).confidence_interval(CONFIDENCE)
        return (float(found.low), float(found.high)), "paired t"
    rng = stream(0, "bootstrap of paired differences")  # the same runs give the same interval
    resampled = stats.bootstrap(
        (differences,), np.mean, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, method="BCa", rng=rng
    )
    found = resampled.confidence_interval
    return (float(found.low), float(found.high)), "bootstrap"


def verdict(interval: tuple[float, float] | None, better: Better) -> Verdict:
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "not distinguishable"
    return "better" if (interval[0] > 0) == (better == "high") else "worse"
