"""What came out of an experiment: the runs of each cell, and what is measured on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from driftless.report.curves import Run, first_reach, moments, tabulate
from driftless.report.metrics import AXES, metric
from driftless.reproduce.checks import Compared, above, below
from driftless.reproduce.experiment import Cell, Experiment, Place, Setup
from driftless.reproduce.intervals import Floats


class Missing(LookupError):
    """A claim asks for a cell that this scale does not have."""


@dataclass(frozen=True)
class Result:
    """A cell and its runs, one a seed."""

    cell: Cell
    runs: tuple[Run, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Those of the grid that were best."""
    printed: Floats | None = None
    """The number of the paper, in place of runs."""

    @property
    def label(self) -> str:
        return label(self.cell.at)

    @property
    def diverged(self) -> int:
        return sum(run.status == "diverged" for run in self.runs)

    def final(self, key: str = "test_accuracy") -> Floats:
        """The last value of each run; of a run that diverged, the last before it did."""
        return self.per_seed(key, lambda values: values[-1])

    def last(self, key: str = "test_accuracy", share: float = 0.1) -> Floats:
        """The mean over the last tenth of the evaluations: less noisy than the last one."""
        return self.per_seed(key, lambda values: values[-max(1, round(share * len(values))) :].mean())

    def best(self, key: str = "test_accuracy") -> Floats:
        return self.per_seed(key, lambda values: values.max())

    def mean(self, key: str) -> Floats:
        """Over all rounds."""
        return self.per_seed(key, lambda values: values.mean())

    def per_seed(self, key: str, of: Callable[[Floats], float]) -> Floats:
        """A number for each run, of the values that were measured; not a number where there are none."""
        return self.of_runs(lambda run: float(of(values)) if len(values := measured(run, key)) else math.nan)

    def of_runs(self, of: Callable[[Run], float]) -> Floats:
        if not self.runs:
            raise Missing(f"{self.label} is printed, not run")
        return np.array([of(run) for run in self.runs])

    def curve(self, key: str, axis: str = "rounds") -> tuple[Floats, Floats, Floats]:
        """Places on the axis ("rounds", "examples", "megabytes", "time"), mean and deviation over the seeds there."""
        rounds = np.unique(np.concatenate([run.rounds[~np.isnan(run.column(key))] for run in self.runs]))
        values = tabulate(self.runs, [run.column(key) for run in self.runs], rounds)
        mean, std, _ = moments(values, ~np.isnan(values))
        places = tabulate(self.runs, [run.total(AXES[axis]) for run in self.runs], rounds)
        return moments(places, ~np.isnan(places))[0], mean, std

    def reach(self, target: float, key: str = "test_accuracy", axis: str = "rounds") -> Floats:
        """What it costs until the target is first reached (from below; a loss from above); infinite if never."""
        return self.of_runs(lambda run: cost_to_reach(run, target, key, axis))


def measured(run: Run, key: str) -> Floats:
    column = run.column(key)
    return column[~np.isnan(column)]


def cost_to_reach(run: Run, target: float, key: str = "test_accuracy", axis: str = "rounds") -> float:
    """Infinite if the target is never reached."""
    place = first_reach(run, metric(key), target)
    return math.inf if place is None else float(run.total(AXES[axis])[place])


@dataclass(frozen=True)
class Measure:
    """What the number of a cell is: one for each seed."""

    title: str
    of: Callable[[Result], Floats]
    scale: float = 1.0
    better: str = "high"
    digits: int = 2

    def __call__(self, result: Result) -> Floats:
        return result.printed if result.printed is not None else self.scale * self.of(result)

    def is_better(self, one: float, other: float) -> bool:
        """What is not a number loses."""
        if math.isnan(one) or math.isnan(other):
            return math.isnan(other) and not math.isnan(one)
        return one > other if self.better == "high" else one < other


def mean_of(values: Floats) -> float:
    """Of what is known; not a number where nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def std_of(values: Floats) -> float | None:
    """Over seeds; None for a single one."""
    with np.errstate(invalid="ignore"):
        return float(values.std(ddof=1)) if len(values) > 1 else None


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

    def measured(self, result: Result) -> Floats:
        """By the experiment's measure, for each seed."""
        assert self.experiment.measure is not None
        return self.experiment.measure(result)

    def as_printed(self) -> Outcome:
        """The numbers that the paper prints, as if they were measured."""
        cells = (cell for cell in self.experiment.paper.cells if cell.published)
        results = (Result(cell, (), printed=np.array([cell.published.mean])) for cell in cells if cell.published)
        return Outcome(self.experiment, self.experiment.paper, tuple(results))


def label(at: Mapping[str, Place]) -> str:
    """ "AdaBest, alpha 0.3": names explain numbers, words explain themselves."""
    return ", ".join(str(value) if isinstance(value, str) else f"{name} {value:g}" for name, value in at.items())


def rivals(outcome: Outcome, name: str, slack: float = 0.0, but: Sequence[str] = ()) -> Iterator[Compared]:
    """In each setting this one against every other of the columns, by the experiment's measure: better, or worse by
    less than `slack`. `but`: others that are left out."""
    measure, column = outcome.experiment.measure, outcome.experiment.columns
    assert measure is not None
    for rest, results in outcome.groups(column):
        found = {str(one.cell.at[column]): one for one in results}
        if name not in found:
            continue
        for other, result in found.items():
            if other != name and other not in but:
                where = f"{label(rest)}: " if rest else ""
                compare = above if measure.better == "high" else below
                unit = " %" if "%" in measure.title else ""
                yield compare(f"{where}{name} against {other}", measure(found[name]), measure(result), -slack, unit)
