"""What came out of an experiment: the runs of each cell, and what is measured on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftless.report.curves import Run, first_reach, moments, tabulate
from driftless.report.metrics import AXES, metric
from driftless.reproduce.experiment import Cell, Check, Experiment, Number, Place, Setup

Floats = NDArray[np.float64]


class Missing(LookupError):
    """A claim asks for a cell that this scale does not have."""


@dataclass(frozen=True)
class Result:
    """A cell and its runs, one a seed."""

    cell: Cell
    runs: tuple[Run, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Those of the grid that were best."""

    @property
    def label(self) -> str:
        return label(self.cell.at)

    @property
    def diverged(self) -> int:
        return sum(run.status == "diverged" for run in self.runs)

    def each(self, key: str) -> list[Floats]:
        """Per seed, the values that were measured."""
        return [column[~np.isnan(column)] for column in (run.column(key) for run in self.runs)]

    def final(self, key: str = "test_accuracy") -> Number:
        """The last value; of a run that diverged, the last before it did."""
        return number([values[-1] for values in self.each(key) if len(values)])

    def last(self, key: str = "test_accuracy", share: float = 0.1) -> Number:
        """The mean over the last tenth of the evaluations: less noisy than the last one."""
        parts = [values[-max(1, round(share * len(values))) :] for values in self.each(key) if len(values)]
        return number([float(part.mean()) for part in parts])

    def best(self, key: str = "test_accuracy") -> Number:
        return number([values.max() for values in self.each(key) if len(values)])

    def mean(self, key: str) -> Number:
        """Over all rounds."""
        return number([float(values.mean()) for values in self.each(key) if len(values)])

    def curve(self, key: str, axis: str = "rounds") -> tuple[Floats, Floats, Floats]:
        """Places on the axis ("rounds", "examples", "megabytes", "time"), mean and deviation over the seeds there."""
        rounds = np.unique(np.concatenate([run.rounds[~np.isnan(run.column(key))] for run in self.runs]))
        values = tabulate(self.runs, [run.column(key) for run in self.runs], rounds)
        mean, std, _ = moments(values, ~np.isnan(values))
        places = tabulate(self.runs, [run.total(AXES[axis]) for run in self.runs], rounds)
        return moments(places, ~np.isnan(places))[0], mean, std

    def reach(self, target: float, key: str = "test_accuracy", axis: str = "rounds") -> Number:
        """What it costs until the target is first reached (from below; a loss from above); infinite if never."""
        return number([cost_to_reach(run, target, key, axis) for run in self.runs])


def cost_to_reach(run: Run, target: float, key: str = "test_accuracy", axis: str = "rounds") -> float:
    """Infinite if the target is never reached."""
    place = first_reach(run, metric(key), target)
    return math.inf if place is None else float(run.total(AXES[axis])[place])


def number(values: Sequence[float]) -> Number:
    if not len(values):
        return Number(math.nan)
    array = np.asarray(values, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return Number(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else None)


@dataclass(frozen=True)
class Measure:
    """What the number of a cell is."""

    title: str
    of: Callable[[Result], Number]
    scale: float = 1.0
    better: str = "high"
    digits: int = 2

    def __call__(self, result: Result) -> Number:
        mean, std = self.of(result)
        return Number(mean * self.scale, None if std is None else std * self.scale)

    def is_better(self, one: float, other: float) -> bool:
        """What is not a number loses."""
        if math.isnan(one) or math.isnan(other):
            return math.isnan(other) and not math.isnan(one)
        return one > other if self.better == "high" else one < other


FINAL_ACCURACY = Measure("test accuracy (%) at the end", lambda result: result.final(), 100)
LAST_ACCURACY = Measure("test accuracy (%), mean of the last tenth", lambda result: result.last(), 100)


@dataclass(frozen=True)
class Outcome:
    experiment: Experiment
    setup: Setup
    results: tuple[Result, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    """What the study returned."""

    def pick(self, **at: Place) -> list[Result]:
        """All results at these places, in the order of the cells."""
        return [one for one in self.results if all(one.cell.at.get(name) == value for name, value in at.items())]

    def one(self, **at: Place) -> Result:
        found = self.pick(**at)
        if len(found) != 1:
            raise Missing(f"{label(at)} is {'not run' if not found else 'not unique'} at this scale")
        return found[0]

    def part(self, **at: Place) -> Outcome:
        """The outcome of these cells alone."""
        return replace(self, results=tuple(self.pick(**at)))

    def places(self, name: str, **at: Place) -> list[Place]:
        """The values that a place takes, in the order of the cells."""
        return list(dict.fromkeys(one.cell.at[name] for one in self.pick(**at) if name in one.cell.at))

    def groups(self, *without: str) -> list[tuple[dict[str, Place], list[Result]]]:
        """Results that differ only in the named places, such as the algorithms of one setting."""
        found: dict[tuple[tuple[str, Place], ...], list[Result]] = {}
        for one in self.results:
            rest = tuple((name, value) for name, value in one.cell.at.items() if name not in without)
            found.setdefault(rest, []).append(one)
        return [(dict(rest), results) for rest, results in found.items()]

    def measured(self, result: Result) -> float:
        assert self.experiment.measure is not None
        return self.experiment.measure(result).mean


def label(at: Mapping[str, Place]) -> str:
    """ "AdaBest, alpha 0.3": names explain numbers, words explain themselves."""
    return ", ".join(str(value) if isinstance(value, str) else f"{name} {value:g}" for name, value in at.items())


def above(what: str, one: float, other: float, by: float = 0.0, unit: str = "") -> Check:
    """`one` exceeds `other` by more than `by`; `what` says what both are."""
    return Check(f"{what}: {one:.4g}{unit} against {other:.4g}{unit}", bool(one > other + by))


def below(what: str, one: float, other: float, by: float = 0.0, unit: str = "") -> Check:
    return Check(f"{what}: {one:.4g}{unit} against {other:.4g}{unit}", bool(one < other - by))


def within(what: str, seen: float, expected: float, tolerance: float) -> Check:
    """`tolerance` is absolute."""
    return Check(f"{what}: {seen:.6g}, expected {expected:.6g}", bool(abs(seen - expected) <= tolerance))


def winner(outcome: Outcome, name: str, slack: float = 0.0) -> Iterable[Check]:
    """In each setting with all columns: is this one the best by the experiment's measure, up to `slack`?"""
    measure, column = outcome.experiment.measure, outcome.experiment.columns
    assert measure is not None
    for rest, results in outcome.groups(column):
        scores = {str(one.cell.at[column]): measure(one).mean for one in results}
        rivals = {other: score for other, score in scores.items() if other != name and not math.isnan(score)}
        if name not in scores or not rivals:
            continue
        sign = 1 if measure.better == "high" else -1
        rival = max(rivals, key=lambda other: sign * rivals[other])
        holds = sign * (scores[name] - rivals[rival]) >= -slack
        where = f"{label(rest)}: " if rest else ""
        digits = measure.digits
        yield Check(f"{where}{name} {scores[name]:.{digits}f}, best other {rival} {rivals[rival]:.{digits}f}", holds)
