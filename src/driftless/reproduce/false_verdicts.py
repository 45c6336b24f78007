"""How often equals are called different: the share of false verdicts on a claim that compares an algorithm with itself.

The values come from runs of one algorithm with different seeds. Each trial draws two groups of them without
replacement, as if they belonged to two algorithms, pairs them, and judges "one is better than the other" as an
experiment does: with the first number of seeds, then with one more at a time until it is decided. Whatever is decided
is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from driftless.random import stream
from driftless.reproduce.checks import Check, above, pooled
from driftless.reproduce.intervals import ERROR, Floats, Interval, error_of_a_look, share_interval


class FalseVerdicts(NamedTuple):
    trials: int
    false: int

    @property
    def share(self) -> Interval:
        """With its 95 % interval."""
        return share_interval(self.false, self.trials, ERROR)


def count_false_verdicts(settings: Sequence[Floats], first: int, last: int, trials: int) -> FalseVerdicts:
    """`settings`: for each setting the values of many seeds; a claim pools them. A seed is drawn for all settings."""
    rng = stream(0, "false verdicts")
    error = error_of_a_look(first, last)
    seeds = min(map(len, settings))
    false = 0
    for _ in range(trials):
        one, other = rng.permutation(seeds)[: 2 * last].reshape(2, last)
        comparisons = [(values[one], values[other]) for values in settings]
        false += any(decided(comparisons, n, error) for n in range(first, last + 1))
    return FalseVerdicts(trials, false)


def decided(comparisons: Sequence[tuple[Floats, Floats]], seeds: int, error: float) -> bool:
    checks: list[Check] = [above("", one[:seeds], other[:seeds]) for one, other in comparisons]
    return (pooled(checks) if len(checks) > 1 else checks[0]).finding(error) != "undecided"
