"""The numbers of a comparison, computed once for the command line, the page and the files.

`summarise` follows the rule by which the GHBM paper measures efficiency (appendix C.3); see `target_of` and `cost_of`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from driftless.compare import read_options
from driftless.errors import InputError, check_range
from driftless.report.cells import Cell, cells_of
from driftless.report.curves import Curve, Floats, Run, first_reach, group
from driftless.report.metrics import AXES, HEADLINES, METRICS, Axis, Metric, metric
from driftless.report.paired import Difference, ValueOfSeed, differences
from driftless.report.settings import key_of
from driftless.runs.directory import StoredRun

BASELINE = "fedavg"
LAST = 10
"""At most so many evaluations make up the "mean of the last ones"."""


class Spread(NamedTuple):
    """Over seeds."""

    mean: float
    std: float | None
    """With n - 1; None for one seed."""
    seeds: int


class Target(NamedTuple):
    """The value that "to target" refers to, for all curves of a cell with the same data and model."""

    value: float
    rule: Literal["given", "fedavg", "best"]
    baseline: str | None
    """Label of the FedAvg curve that costs are relative to."""
    problem: str

    @property
    def text(self) -> str:
        if self.rule == "given":
            return f"{self.value:.4g} was given as the target."
        if self.rule == "fedavg":
            return (
                f"The target is {self.value:.4g}, the final quality of {self.baseline}: its mean over the last "
                f"evaluations and seeds. {self.baseline} itself is charged its whole training."
            )
        return f"The target is {self.value:.4g}, nine tenths of the best final value, as there is no {BASELINE} run."


class Cost(NamedTuple):
    """What it took to reach the target, on one axis: the mean over seeds."""

    value: float
    """A seed that did not reach it counts with all it spent, so the true cost is at least this."""
    reached: int
    seeds: int
    relative: float | None
    """To FedAvg; None when there is none, or when neither of the two reached the target with all seeds."""
    bound: Literal["", "≥", "≤"]
    """The ratio is only a bound when one of the two did not reach the target with all seeds."""


@dataclass(frozen=True)
class Row:
    """One curve."""

    label: str
    algorithm: str
    cell: str
    """Name of the cell of the sweep; empty when nothing was swept."""
    seeds: int
    final: Spread | None
    """Of the seeds that ended without diverging; while none has ended, where they are now."""
    best: Spread | None
    last: Spread | None
    """Mean of the last evaluations."""
    last_count: int
    """How many evaluations `last` is over."""
    differences: tuple[Difference, ...]
    """Of `last`, paired over seeds, to FedAvg and to the best of the same cell."""
    costs: dict[str, Cost]
    """By axis; without those that were not recorded. Empty without a target."""
    target: Target | None
    norm: Spread | None
    failures: int | None
    """Catastrophic failures, all seeds together; None when they were not recorded."""
    diverged: int
    unfinished: int


@dataclass(frozen=True)
class Summary:
    headline: Metric | None
    """What the runs are judged by; None when they recorded nothing to judge by."""
    rows: list[Row]
    """The best first."""
    targets: list[Target]
    """One for each cell and each combination of data and model."""
    curves: list[Curve]
    """In the order in which they were given."""
    parts: list[tuple[Cell, Summary]]
    """Cell by cell, the curves with shorter labels; one when nothing was swept. A part has no parts."""

    @property
    def last_count(self) -> int | None:
        """None when it is not the same for all rows."""
        counts = {row.last_count for row in self.rows if row.last is not None}
        return counts.pop() if len(counts) == 1 else None

    def described(self, key: str) -> Metric:
        """Which direction of the headline is better was a setting of the runs."""
        return self.headline if self.headline and self.headline.key == key else metric(key)

    def axes(self) -> list[Axis]:
        """Those on which some curve has a cost."""
        return [axis for key, axis in AXES.items() if any(key in row.costs for row in self.rows)]


def summarise(runs: Sequence[StoredRun], target: float | None = None) -> Summary:
    """Group the runs into curves and compare those of each cell; without `target` the rule of `target_of` sets one."""
    curves = group(runs)
    headline = headline_of(curves)
    check_target(target, headline)
    parts = [(cell, summary_of(cell, headline, target)) for cell in cells_of(curves)]
    rows = [row for cell, part in parts for row in with_full_labels(cell, part.rows)]
    targets = [found for _, part in parts for found in part.targets]
    return Summary(headline, best_first(rows, headline), targets, curves, parts)


def summary_of(cell: Cell, headline: Metric | None, target: float | None) -> Summary:
    """Of the curves of one cell."""
    rows: list[Row] = []
    targets: list[Target] = []
    paired = paired_differences(cell.curves, headline) if headline else {}
    for problem in dict.fromkeys(curve.problem for curve in cell.curves):
        same = [curve for curve in cell.curves if curve.problem == problem]
        found = target_of(same, headline, target) if headline else None
        targets += [found] if found else []
        rows += [row_of(curve, cell, headline, found, same, paired.get(curve.label, ())) for curve in same]
    return Summary(headline, best_first(rows, headline), targets, list(cell.curves), [])


def best_first(rows: Iterable[Row], headline: Metric | None) -> list[Row]:
    return sorted(rows, key=lambda row: rank(row.final, headline))


def rank(value: Spread | None, metric: Metric | None) -> float:
    """A key to sort by: the best first, or the highest where none is better; what has no value last."""
    if value is None:
        return math.inf
    return value.mean if metric and metric.better == "low" else -value.mean


def with_full_labels(cell: Cell, rows: Iterable[Row]) -> list[Row]:
    full = dict(zip((curve.label for curve in cell.curves), cell.full_labels, strict=True))
    return [replace(row, label=full[row.label]) for row in rows]


def paired_differences(curves: Sequence[Curve], headline: Metric) -> dict[str, tuple[Difference, ...]]:
    """By label; curves are paired with those on the same data only."""
    found: dict[str, tuple[Difference, ...]] = {}
    for data in dict.fromkeys(data_of(curve) for curve in curves):
        same = [curve for curve in curves if data_of(curve) == data]
        values = {curve.label: value_of_seed(curve, headline.key) for curve in same}
        baseline = best_baseline(same, headline)
        found |= differences(values, baseline.label if baseline else None, headline.better or "high")
    return found


def data_of(curve: Curve) -> str:
    return key_of({key: value for key, value in curve.settings.items() if key.startswith("data.")})


def value_of_seed(curve: Curve, key: str) -> ValueOfSeed:
    """The mean of the last evaluations of each run that has ended."""
    values: dict[Hashable, float | None] = {}
    for run in curve.runs:
        known = measured(run, key)
        if run.status == "diverged":
            values[run.seed, run.data_seed] = None
        elif run.status != "unfinished" and len(known):
            values[run.seed, run.data_seed] = float(known[-last_of(known) :].mean())
    return values


def headline_of(curves: Sequence[Curve]) -> Metric | None:
    """What the runs were judged by, if it is the same for all; else the first of HEADLINES that they have."""
    monitors = {(run.settings["evaluate.monitor"], run.settings["evaluate.mode"]) for c in curves for run in c.runs}
    if len(monitors) == 1:
        key, mode = monitors.pop()
        if any(key in curve.metrics() for curve in curves):
            return metric(key)._replace(better="low" if mode == "min" else "high")
    found = next((key for key in HEADLINES if any(key in curve.metrics() for curve in curves)), None)
    return METRICS[found] if found else None


def check_target(target: float | None, headline: Metric | None) -> None:
    if target is None:
        return
    if headline is None:
        raise InputError(
            f"target={target:g} has no use: the runs recorded neither accuracy nor loss; leave the target out."
        )
    if headline.key.endswith("accuracy"):
        check_range(f"target (a {headline.name}, so 0.9 for 90 %)", target, 0.0, 1.0, low_open=True)
    elif not math.isfinite(target):
        raise InputError(f"target must be a finite {headline.name}, got {target}; give a number.")


def target_of(curves: Sequence[Curve], headline: Metric, given: float | None = None) -> Target | None:
    """The target for curves of one cell with the same data and model: what the user gave, or the GHBM paper's rule.

    The paper (appendix C.3, step 1) asks for "the minimum number of rounds r_a to reach the performance of FedAvg".
    FedAvg's performance is its final model quality, the mean over the last evaluations (section 5), averaged over
    seeds. Of several FedAvg curves, tuned differently, the best is taken. Without FedAvg the target is nine tenths of
    the best final value, rounded to a percent; where lower is better there is none then. A curve alone has no target.
    """
    problem = curves[0].problem
    baseline = best_baseline(curves, headline)
    label = baseline.label if baseline else None
    given = given if given is not None else stored_target(curves, headline)
    if given is not None:
        return Target(given, "given", label, problem)
    if len(curves) == 1:
        return None
    quality = last_mean(counted(baseline), headline.key) if baseline else None
    if quality is not None:
        return Target(quality.mean, "fedavg", label, problem)
    finals = [f.mean for curve in curves if (f := final(counted(curve), headline.key)) is not None]
    if headline.better != "high" or not finals or max(finals) <= 0:
        return None
    return Target(round(0.9 * max(finals), 2), "best", None, problem)


def stored_target(curves: Iterable[Curve], headline: Metric) -> float | None:
    """The target that the runs, or the comparison they belong to, were started with, if all have the same."""
    runs = [run for curve in curves for run in curve.runs]
    folders = {run.comparison for run in runs}
    shared = {folder: read_options(folder).target if folder else None for folder in folders}
    found = {shared[run.comparison] if (own := run.settings["run.target"]) is None else own for run in runs}
    monitors = {run.settings["evaluate.monitor"] or "test_accuracy" for run in runs}
    return found.pop() if len(found) == 1 and monitors == {headline.key} else None


def best_baseline(curves: Iterable[Curve], headline: Metric) -> Curve | None:
    sign = 1 if headline.better == "high" else -1
    known = [(sign * quality.mean, curve) for curve in curves if curve.algorithm == BASELINE
             and (quality := last_mean(counted(curve), headline.key)) is not None]  # fmt: skip
    return max(known, key=lambda pair: pair[0])[1] if known else None


def row_of(
    curve: Curve, cell: Cell, headline: Metric | None, target: Target | None, same: Sequence[Curve],
    paired: tuple[Difference, ...],
) -> Row:  # fmt: skip
    runs = counted(curve)
    key = headline.key if headline else ""
    baseline = next((c for c in same if target and c.label == target.baseline), None)
    costs: dict[str, Cost] = {}
    if headline and target:
        found = {axis.key: cost_of(curve, baseline, axis, headline, target) for axis in AXES.values()}
        costs = {axis: cost for axis, cost in found.items() if cost is not None}
    failures = [run.column("failure") for run in curve.runs if "failure" in run.metrics]
    return Row(
        label=curve.label,
        algorithm=curve.algorithm,
        cell=cell.name,
        seeds=len(curve.runs),
        final=final(runs, key),
        best=best(runs, headline) if headline else None,
        last=last_mean(runs, key),
        last_count=max((last_of(measured(run, key)) for run in runs), default=0),
        differences=paired,
        costs=costs,
        target=target,
        norm=final(runs, "norm_x"),
        failures=int(sum(np.nansum(column) for column in failures)) if failures else None,
        diverged=sum(run.status == "diverged" for run in curve.runs),
        unfinished=sum(run.status == "unfinished" for run in curve.runs),
    )


def counted(curve: Curve) -> list[Run]:
    """The runs that ended without diverging; while none has ended, those that are under way."""
    ended = [run for run in curve.runs if run.status in ("finished", "stopped")]
    return ended or [run for run in curve.runs if run.status != "diverged"]


def measured(run: Run, key: str) -> Floats:
    column = run.column(key)
    return column[~np.isnan(column)]


def spread(values: Iterable[float]) -> Spread | None:
    known = [float(value) for value in values]
    if not known:
        return None
    return Spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


def final(runs: Sequence[Run], key: str) -> Spread | None:
    return spread(values[-1] for run in runs if len(values := measured(run, key)))


def best(runs: Sequence[Run], headline: Metric) -> Spread | None:
    extreme = np.max if headline.better == "high" else np.min
    return spread(extreme(values) for run in runs if len(values := measured(run, headline.key)))


def last_mean(runs: Sequence[Run], key: str) -> Spread | None:
    return spread(values[-last_of(values) :].mean() for run in runs if len(values := measured(run, key)))


def last_of(values: Floats) -> int:
    """A tenth of the evaluations, at most ten: of 40 evaluations the last 4. (The paper: 100 of 10,000 rounds.)"""
    return min(LAST, math.ceil(len(values) / 10))


def cost_of(curve: Curve, baseline: Curve | None, axis: Axis, headline: Metric, target: Target) -> Cost | None:
    """What the curve spent until it reached the target, and how that compares with FedAvg; None if not recorded.

    The paper (appendix C.3, step 2) charges algorithm a with b_a * r_a / T: bytes b_a of the whole budget of T rounds,
    r_a rounds to the target. Here the rounds until r_a are added up, which is the same when all rounds cost the same,
    and exact when they do not. For algorithms "that did not reach the target performance in the training budget T, we
    conservatively consider r_a = T"; so here, and the cost is marked as a lower bound. When the target is FedAvg's own
    final quality, r_FedAvg = T: in the paper's table 4 an algorithm with three times FedAvg's traffic that misses the
    target costs exactly three times as much. Step 3, the reduction against FedAvg, is 1 - `Cost.relative`.
    """
    own = spent(curve, axis, headline, target)
    reference = spent(baseline, axis, headline, target) if baseline else None
    if own is None:
        return None
    value, reached = own
    cost = Cost(value, reached, len(curve.runs), None, "")
    if baseline is None or reference is None or not reference[0]:
        return cost
    whole, other_whole = reached == len(curve.runs), reference[1] == len(baseline.runs)
    if curve is baseline or (whole and other_whole):
        return cost._replace(relative=value / reference[0])
    if not whole and not other_whole:
        return cost
    return cost._replace(relative=value / reference[0], bound="≤" if whole else "≥")


def spent(curve: Curve, axis: Axis, headline: Metric, target: Target) -> tuple[float, int] | None:
    """(mean cost, seeds that reached the target)."""
    each = [run for run in curve.runs if len(run.rounds)]
    if not each or any(np.isnan(run.total(axis)).any() for run in each):
        return None
    if target.rule == "fedavg" and curve.label == target.baseline:
        trained = [run for run in counted(curve) if len(run.rounds)]
        return statistics.fmean(run.total(axis)[-1] for run in trained), len(curve.runs)
    rounds = [first_reach(run, headline, target.value) for run in each]
    costs = [whole_cost(run, axis) if at is None else run.total(axis)[at] for run, at in zip(each, rounds, strict=True)]
    return statistics.fmean(costs), sum(at is not None for at in rounds)


def whole_cost(run: Run, axis: Axis) -> float:
    """All that a run spent. A diverged one is charged its whole budget, at what its rounds cost on average."""
    total = float(run.total(axis)[-1])
    return total * run.budget / run.played if run.status == "diverged" and run.played else total
