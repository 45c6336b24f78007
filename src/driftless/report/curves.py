"""Runs grouped into curves: one experiment over several seeds, drawn as a mean with a band.

Two runs belong to one curve when their settings are equal apart from the seeds and from how the engine computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftless.compare import comparison_above
from driftless.errors import InputError
from driftless.report.metrics import AXES, METRICS, Axis, Metric
from driftless.report.settings import (
    LABEL,
    SEEDS,
    Settings,
    algorithm_label,
    identity,
    key_of,
    labels,
    read_settings,
)
from driftless.runs.directory import StoredRun

Floats = NDArray[np.float64]


class Run:
    """A stored run as columns; what a round did not measure, or measured as not finite, is NaN."""

    def __init__(self, stored: StoredRun) -> None:
        self.stored = stored
        # Of a round that is there twice, the later line counts: a resumed run wrote it again.
        rows = {int(row["round"]): row for row in stored.rows if isinstance(row.get("round"), int)}
        self.rounds = np.array(sorted(rows), dtype=np.int64)
        self._rows = [rows[t] for t in sorted(rows)]
        self._columns: dict[str, Floats] = {}
        self._totals: dict[str, Floats] = {}

    @property
    def status(self) -> str:
        """ "finished", "stopped", "diverged", or "unfinished" while there is no result."""
        return str((self.stored.result or {}).get("status", "unfinished"))

    @cached_property
    def settings(self) -> Settings:
        return read_settings(self.stored.path)

    @cached_property
    def comparison(self) -> Path | None:
        """The folder of the comparison that the run belongs to."""
        return comparison_above(self.stored.path)

    @property
    def algorithm(self) -> str:
        return str(self.settings["algorithm.name"])

    @property
    def seed(self) -> int:
        return self.settings["run.seed"]

    @property
    def data_seed(self) -> int | None:
        """None: the data are divided by the run's seed."""
        return self.settings["data.seed"]

    @property
    def budget(self) -> int:
        return self.settings["run.rounds"]

    @property
    def played(self) -> int:
        return int(self.rounds[-1]) if len(self.rounds) else 0

    @cached_property
    def metrics(self) -> set[str]:
        """What was measured at least once."""
        keys = {key for row in self._rows for key in row} - {"round"}
        return {key for key in keys if not np.isnan(self.column(key)).all()}

    def column(self, key: str) -> Floats:
        """[rounds]."""
        if key not in self._columns:
            values = [row.get(key) for row in self._rows]
            self._columns[key] = np.array([v if finite(v) else math.nan for v in values], dtype=np.float64)
        return self._columns[key]

    def total(self, axis: Axis) -> Floats:
        """What the rounds until each round cost together, [rounds]; NaN when the run did not record it."""
        if axis.key not in self._totals:
            if not axis.sums:
                total = self.rounds.astype(np.float64)
            elif not self.metrics.issuperset(axis.sums):
                total = np.full(len(self.rounds), math.nan)
            else:
                total = np.cumsum(sum(np.nan_to_num(self.column(key)) for key in axis.sums)) * axis.scale
            self._totals[axis.key] = total
        return self._totals[axis.key]


def finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def first_reach(run: Run, metric: Metric, target: float) -> int | None:
    """The position in `run.rounds` of the first evaluation that reaches the target; None if none does."""
    sign = -1 if metric.better == "low" else 1
    # A target that is a mean of accuracies carries rounding errors.
    reaching = sign * (run.column(metric.key) - target) >= -1e-12
    return int(np.argmax(reaching)) if reaching.any() else None


@dataclass(frozen=True)
class Curve:
    label: str
    runs: tuple[Run, ...]
    """One a seed."""
    settings: Settings = field(repr=False)
    """By their full key; without the seeds."""
    repeated: tuple[Run, ...] = ()
    """Runs of a seed that is already there, not counted."""

    @property
    def algorithm(self) -> str:
        return self.runs[0].algorithm

    @property
    def name(self) -> str:
        """The run's own label, or the algorithm's name; curves with different settings may share it."""
        return self.settings[LABEL] or algorithm_label(self.algorithm)

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @property
    def problem(self) -> str:
        """Data and model: only curves with the same ones can be compared."""
        return key_of({key: value for key, value in self.settings.items() if key.startswith(("data.", "model."))})

    def metrics(self) -> set[str]:
        return {key for run in self.runs for key in run.metrics}


class Band(NamedTuple):
    """A metric over rounds: mean and standard deviation over the seeds that have it in that round."""

    rounds: NDArray[np.int64]
    mean: Floats
    std: Floats
    """With n - 1; 0 where only one seed is left."""
    seeds: NDArray[np.int64]
    """Seeds that are left: fewer than at first when runs diverged, stopped or have not finished."""
    x: dict[str, Floats]
    """Axis -> mean over the same seeds of what the rounds have cost until then; NaN where it was not recorded."""


def group(runs: Sequence[StoredRun]) -> list[Curve]:
    """The curves, in the order in which their first runs are given."""
    if not runs:
        raise InputError("no run was given; give at least one run directory, or a folder that holds some.")
    found: dict[str, list[Run]] = {}
    for run in map(Run, runs):
        found.setdefault(key_of(identity(run.settings)), []).append(run)
    members = [one_per_seed(same) for same in found.values()]
    settings = [{k: v for k, v in kept[0].settings.items() if k not in SEEDS} for kept, _ in members]
    names = labels([kept[0].algorithm for kept, _ in members], settings)
    return [Curve(name, kept, own, repeated)
            for name, own, (kept, repeated) in zip(names, settings, members, strict=True)]  # fmt: skip


def one_per_seed(runs: list[Run]) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """One run a seed, the longest of each, in the order of seeds; and the others.

    Counting a run twice would make the band narrower than it is.
    """
    by_seed: dict[tuple[int, int | None], list[Run]] = {}
    for run in runs:
        by_seed.setdefault((run.seed, run.data_seed), []).append(run)
    ordered = [sorted(by_seed[seed], key=lambda run: -run.played) for seed in sorted(by_seed, key=str)]
    ordered.sort(key=lambda same: same[0].seed)
    return tuple(same[0] for same in ordered), tuple(run for same in ordered for run in same[1:])


def band(curve: Curve, key: str) -> Band | None:
    """None when no run of the curve has the metric."""
    rounds = np.unique(np.concatenate([run.rounds[~np.isnan(run.column(key))] for run in curve.runs]))
    if not len(rounds):
        return None
    values = tabulate(curve.runs, [run.column(key) for run in curve.runs], rounds)
    has = ~np.isnan(values)
    mean, std, count = moments(values * (METRICS[key].scale if key in METRICS else 1.0), has)
    totals = {axis: tabulate(curve.runs, [run.total(axis) for run in curve.runs], rounds) for axis in AXES.values()}
    return Band(rounds, mean, std, count, {axis.key: moments(table, has)[0] for axis, table in totals.items()})


def tabulate(runs: Sequence[Run], columns: Sequence[Floats], rounds: NDArray[np.int64]) -> Floats:
    """[runs, rounds], NaN where there is no value."""
    table = np.full((len(runs), len(rounds)), math.nan)
    for line, run, column in zip(table, runs, columns, strict=True):
        known = np.isin(run.rounds, rounds)
        line[np.searchsorted(rounds, run.rounds[known])] = column[known]
    return table


def moments(values: Floats, has: NDArray[np.bool_]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Mean, standard deviation and number over the rows, of the entries marked in `has`."""
    count = has.sum(0)
    with np.errstate(over="ignore", invalid="ignore"):  # a run about to diverge may square to infinity
        mean = np.where(has, values, 0.0).sum(0) / np.maximum(count, 1)
        squares = np.where(has, (values - mean) ** 2, 0.0).sum(0)
    return mean, np.sqrt(squares / np.maximum(count - 1, 1)), count


def metrics_of(curves: Iterable[Curve]) -> list[str]:
    """Every metric that occurs, the known ones first."""
    found = {key for curve in curves for key in curve.metrics()}
    return [key for key in METRICS if key in found] + sorted(found - set(METRICS))
