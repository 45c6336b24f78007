"""Checks: the comparisons that a claim rests on, each with what it is known to.

A check is about an effect and holds if the effect is above 0; what the rule asks for (its margin) is taken off.
`Compared` is measured on seeds: runs with the same seed share data, initial model and cohorts, and are compared in
pairs. `Share` counts runs. `Exact` is computed, not sampled.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from driftless.reproduce.intervals import (
    EVERYTHING,
    Floats,
    Interval,
    has_no_spread,
    seeds_until,
    share_excludes,
    share_interval,
    t_excludes_zero,
    t_interval,
)

Decision = Literal["supported", "refuted", "undecided"]
Side = Literal["above", "below"]


@dataclass(frozen=True, eq=False)
class Check(ABC):
    text: str
    """What is compared, with the means that were seen."""

    @abstractmethod
    def interval(self, error: float) -> Interval:
        """Of the effect."""

    @abstractmethod
    def seen(self, error: float) -> str:
        """The number that was seen, its interval, and what the rule asks for."""

    @abstractmethod
    def more_seeds(self, error: float) -> int | None:
        """That would decide it, if they are like those seen; None: more than can be afforded."""

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """What the verdict can be computed from again."""

    def finding(self, error: float) -> Decision:
        interval = self.interval(error)
        return "supported" if interval.low > 0 else "refuted" if interval.high < 0 else "undecided"


@dataclass(frozen=True, eq=False)
class Exact(Check):
    """Computed: an identity, a bound, a count."""

    holds: bool

    def interval(self, error: float) -> Interval:
        value = 1.0 if self.holds else -1.0
        return Interval(value, value, value)

    def seen(self, error: float) -> str:
        return "holds" if self.holds else "does not hold"

    def more_seeds(self, error: float) -> int | None:
        return 0

    def as_json(self) -> dict[str, Any]:
        return {"kind": "exact", "text": self.text, "holds": self.holds}


@dataclass(frozen=True, eq=False)
class Compared(Check):
    """Differences, one for each seed, that are above (or below) a limit: by their mean, or by how often they are where
    they have no size or no spread."""

    differences: Floats
    limit: float = 0.0
    side: Side = "above"
    unit: str = ""
    by_sign: bool = False

    @property
    def effects(self) -> Floats:
        """By how much each seed holds."""
        return self.differences - self.limit if self.side == "above" else self.limit - self.differences

    @property
    def counts_signs(self) -> bool:
        return self.by_sign or not np.isfinite(self.differences).all() or has_no_spread(self.differences)

    @property
    def signs(self) -> Floats:
        """Of the seeds that tell something."""
        known = np.sign(self.effects[~np.isnan(self.effects)])
        return known[known != 0]

    def interval(self, error: float) -> Interval:
        """Of the mean effect; of the share of positive ones above one half."""
        if not len(self.differences):
            return EVERYTHING
        if not self.counts_signs:
            return t_interval(self.effects, error)
        low, mean, high = share_interval(int((self.signs > 0).sum()), len(self.signs), error)
        return Interval(low - 0.5, mean - 0.5, high - 0.5)

    def seen(self, error: float) -> str:
        if self.counts_signs and len(self.differences) > 1:
            return f"holds in {int((self.signs > 0).sum())} of {len(self.differences)} seeds"
        low, mean, high = t_interval(self.differences, error)
        asked = f" ({'more' if self.side == 'above' else 'less'} than {self.limit:g})" if self.limit else ""
        spread = f" [{low:.3g}, {high:.3g}]" if math.isfinite(low) else ""
        return f"{mean:+.3g}{spread}{self.unit.replace('%', 'points')}{asked}"

    def more_seeds(self, error: float) -> int | None:
        seeds = len(self.differences)
        if seeds < 2:
            return None
        if self.counts_signs:
            share, told = (np.mean(self.signs > 0), len(self.signs) / seeds) if len(self.signs) else (0.5, 1.0)
            return seeds_until(lambda n: share_excludes(0.5, float(share), round(told * n), error), seeds)
        mean, std = float(self.effects.mean()), float(self.effects.std(ddof=1))
        return seeds_until(lambda n: t_excludes_zero(mean, std, n, error), seeds)

    def as_json(self) -> dict[str, Any]:
        values = [float(f"{value:.6g}") if math.isfinite(value) else str(value) for value in self.differences]
        return {"kind": "signs" if self.by_sign else "mean", "text": self.text, "differences": values,
                "side": self.side, "limit": self.limit, "unit": self.unit}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Share(Check):
    """Runs to which something happened: their share is below (or above) a limit."""

    happened: tuple[bool, ...]
    limit: float
    side: Side

    def interval(self, error: float) -> Interval:
        """Of the distance to the limit."""
        low, mean, high = share_interval(sum(self.happened), len(self.happened), error)
        if self.side == "above":
            return Interval(low - self.limit, mean - self.limit, high - self.limit)
        return Interval(self.limit - high, self.limit - mean, self.limit - low)

    def seen(self, error: float) -> str:
        low, _, high = share_interval(sum(self.happened), len(self.happened), error)
        asked = f"{'more' if self.side == 'above' else 'less'} than {100 * self.limit:g} %"
        return f"{sum(self.happened)} of {len(self.happened)} runs [{100 * low:.0f}, {100 * high:.0f}] % ({asked})"

    def more_seeds(self, error: float) -> int | None:
        runs = len(self.happened)
        return seeds_until(lambda n: share_excludes(self.limit, sum(self.happened) / max(1, runs), n, error), runs)

    def as_json(self) -> dict[str, Any]:
        return {"kind": "share", "text": self.text, "happened": sum(self.happened), "of": len(self.happened),
                "side": self.side, "limit": self.limit}  # fmt: skip


PerSeed = Floats | float
"""A value for each seed, or one that is known."""


def shown(value: PerSeed) -> str:
    mean = float(np.mean(value))
    return "never" if math.isinf(mean) else f"{mean:.4g}"


def above(what: str, one: PerSeed, other: PerSeed, by: float = 0.0, unit: str = "") -> Compared:
    """`one` exceeds `other` by more than `by`, on average over the seeds; `what` says what both are."""
    text = f"{what}: {shown(one)}{unit} against {shown(other)}{unit}"
    return Compared(text, difference(one, other), by, "above", unit)


def below(what: str, one: PerSeed, other: PerSeed, by: float = 0.0, unit: str = "") -> Compared:
    text = f"{what}: {shown(one)}{unit} against {shown(other)}{unit}"
    return Compared(text, difference(one, other), -by if by else 0.0, "below", unit)


def close(what: str, one: PerSeed, other: PerSeed, margin: float, unit: str = "") -> tuple[Compared, Compared]:
    """They differ by less than `margin`: both directions must hold."""
    return above(what, one, other, -margin, unit), below(what, one, other, -margin, unit)


def difference(one: PerSeed, other: PerSeed) -> Floats:
    """Where both are infinite there is none."""
    with np.errstate(invalid="ignore"):
        return np.atleast_1d(np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64))


def more_often(what: str, one: Sequence[bool], other: Sequence[bool]) -> Compared:
    """It happens to `one` in more seeds than to `other`."""
    text = f"{what}: {sum(one)} of {len(one)} runs against {sum(other)} of {len(other)}"
    return Compared(text, difference(np.array(one, dtype=float), np.array(other, dtype=float)), by_sign=True)


def seldom(what: str, happened: Sequence[bool], below: float) -> Share:
    return Share(f"{what}: {sum(happened)} of {len(happened)} runs", tuple(map(bool, happened)), below, "below")


def mostly(what: str, happened: Sequence[bool], above: float) -> Share:
    return Share(f"{what}: {sum(happened)} of {len(happened)} runs", tuple(map(bool, happened)), above, "above")


def exact(text: str, holds: bool) -> Exact:
    return Exact(text, bool(holds))


def within(what: str, seen: float, expected: float, tolerance: float) -> Exact:
    """A number that is computed; `tolerance` is absolute."""
    return Exact(f"{what}: {seen:.6g}, expected {expected:.6g}", bool(abs(seen - expected) <= tolerance))


def renamed(prefix: str, checks: Sequence[Check]) -> Iterator[Check]:
    """The same checks, with the setting in front of the text."""
    for check in checks:
        yield replace(check, text=f"{prefix}: {check.text}")


def pooled(checks: Sequence[Check]) -> Check:
    """The average over settings. A seed is one unit: its effects in all settings are averaged first, because settings
    with the same seed share what is random. (The analysis of variance with settings fixed and seeds random.)"""
    kinds = {type(check) for check in checks}
    text = f"average of {len(checks)} comparisons"
    if kinds == {Compared}:
        compared = [check for check in checks if isinstance(check, Compared)]
        seeds = min(len(check.differences) for check in compared)
        first = compared[0]
        if any(check.by_sign or not np.isfinite(check.differences).all() for check in compared):
            signs = np.stack([np.nan_to_num(np.sign(check.effects[:seeds])) for check in compared])
            return Compared(text, signs.mean(0), by_sign=True)
        if any((check.side, check.limit) != (first.side, first.limit) for check in compared):
            return Compared(text, np.stack([check.effects[:seeds] for check in compared]).mean(0), unit=first.unit)
        return replace(first, text=text, differences=np.stack([c.differences[:seeds] for c in compared]).mean(0))
    if kinds == {Share}:
        shares = [check for check in checks if isinstance(check, Share)]
        assert len({(check.limit, check.side) for check in shares}) == 1, "shares with different limits have no average"
        happened = tuple(one for check in shares for one in check.happened)
        return Share(f"{sum(happened)} of {len(happened)} runs", happened, shares[0].limit, shares[0].side)
    raise AssertionError(f"checks of the kinds {kinds} have no average")


def from_json(stored: Mapping[str, Any]) -> Check:
    """The check that `as_json` stored."""
    text, kind = stored["text"], stored["kind"]
    if kind == "exact":
        return Exact(text, stored["holds"])
    if kind == "share":
        happened = [i < stored["happened"] for i in range(stored["of"])]
        return Share(text, tuple(happened), stored["limit"], stored["side"])
    differences = np.array([float(value) for value in stored["differences"]])
    return Compared(text, differences, stored["limit"], stored["side"], stored["unit"], kind == "signs")
