"""Differences paired over seeds, checked against scipy's paired t test and against formulas written out here."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from scipy import stats

from driftless.report.paired import Difference, ValueOfSeed, difference, differences
from driftless.report.summary import Row, summarise
from report.runs import Folder

OWN = {0: 0.81, 1: 0.84, 2: 0.79, 3: 0.83}
OTHER = {0: 0.78, 1: 0.80, 2: 0.77, 3: 0.78}
T_975 = {1: 12.706204736, 2: 4.302652730, 3: 3.182446305}
"""Quantiles of Student's t by degrees of freedom, from a printed table."""


def of(own: ValueOfSeed, other: ValueOfSeed, better: str = "high") -> Difference:
    found = difference(own, other, better, "best", "other")  # pyright: ignore[reportArgumentType]
    assert found is not None
    return found


@pytest.mark.parametrize("seeds", [2, 3, 4])
def test_up_to_nine_seeds_the_interval_is_that_of_the_paired_t_test(seeds: int):
    own, other = ({s: values[s] for s in range(seeds)} for values in (OWN, OTHER))
    found = of(own, other)
    each = [own[s] - other[s] for s in range(seeds)]
    mean, error = statistics.fmean(each), statistics.stdev(each) / math.sqrt(seeds)
    assert (found.mean, found.seeds, found.method) == (pytest.approx(mean), seeds, "paired t")
    assert found.low == pytest.approx(mean - T_975[seeds - 1] * error, rel=1e-8)
    assert found.high == pytest.approx(mean + T_975[seeds - 1] * error, rel=1e-8)
    assert found.half == pytest.approx(T_975[seeds - 1] * error, rel=1e-8)
    p = float(stats.ttest_rel(list(own.values()), list(other.values())).pvalue)
    assert (found.verdict == "better") == (p < 0.05)


def drawn(seeds: int, gain: float) -> tuple[dict[int, float], dict[int, float]]:
    rng = np.random.default_rng(3)
    other = rng.normal(0.7, 0.05, seeds)
    own = other + gain + rng.exponential(0.01, seeds)
    return dict(enumerate(own.tolist())), dict(enumerate(other.tolist()))


def bca(values: np.ndarray) -> tuple[float, float]:
    """The BCa interval of a mean by Efron's formulas, with resamples of its own."""
    rng, n = np.random.default_rng(11), len(values)
    means = np.sort(values[rng.integers(0, n, (200_000, n))].mean(1))
    z0 = stats.norm.ppf((means < values.mean()).mean())
    left_out = (values.sum() - values) / (n - 1)
    deviations = left_out.mean() - left_out
    a = (deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5)
    z = z0 + stats.norm.ppf([0.025, 0.975])
    low, high = np.quantile(means, stats.norm.cdf(z0 + z / (1 - a * z)))
    return float(low), float(high)


def test_from_ten_seeds_on_the_interval_is_the_bootstrap_of_the_differences():
    own, other = drawn(12, 0.0)
    found = of(own, other)
    assert (found.method, found.seeds, found.verdict) == ("bootstrap", 12, "better")
    each = np.array([own[s] - other[s] for s in own])
    low, high = bca(each)
    # Both have errors of resampling; with 9,999 resamples an end moves by about one percent of the width.
    assert found.low == pytest.approx(low, abs=0.04 * (high - low))
    assert found.high == pytest.approx(high, abs=0.04 * (high - low))
    assert found.high - found.mean > found.mean - found.low  # the differences have a long tail upwards
    assert of(own, other) == found
    nine = {s: own[s] for s in range(9)}
    assert of(nine, other).method == "paired t"


def test_better_and_worse_are_said_only_where_the_interval_excludes_0():
    assert of(OWN, OTHER).verdict == "better"
    assert of(OTHER, OWN).verdict == "worse"
    assert of(OWN, OTHER, "low").verdict == "worse"
    assert of(OTHER, OWN, "low").verdict == "better"
    two = {0: 0.9, 1: 0.8}
    found = of(two, {0: 0.5, 1: 0.6})
    assert found.mean == pytest.approx(0.3)
    assert (found.low < 0 < found.high, found.verdict) == (True, "not distinguishable")


def test_only_seeds_that_both_have_are_paired_and_one_alone_says_nothing():
    own = {seed: value for seed, value in OWN.items() if seed}
    assert of(own, {**OTHER, 7: 0.1}) == of(own, {s: OTHER[s] for s in own})
    assert difference({0: 0.9}, {0: 0.1}, "high", "best", "other") is None
    assert difference({0: 0.9, 1: 0.9}, {1: 0.1, 2: 0.1}, "high", "best", "other") is None


def test_diverged_runs_are_left_out_and_counted():
    found = of({**OWN, 0: None}, {**OTHER, 1: None, 9: None})
    assert (found.seeds, found.diverged) == (2, 2)
    assert found.mean == pytest.approx(((0.79 - 0.77) + (0.83 - 0.78)) / 2)


def test_seeds_without_any_spread_give_no_interval_and_no_verdict():
    for shift in (0.0, 0.01):
        found = of({s: v + shift for s, v in OTHER.items()}, OTHER)
        assert (found.low, found.high, found.half, found.method) == (None, None, None, None)
        assert found.verdict == "not distinguishable"
        assert found.mean == pytest.approx(shift)


@pytest.mark.parametrize(("seeds", "verdict"), [(3, "not distinguishable"), (12, "worse")])
def test_losses_whose_squares_are_infinite_have_an_interval_too(seeds: int, verdict: str):
    found = of({s: 1e300 * (s + 1) for s in range(seeds)}, dict.fromkeys(range(seeds), 1.0), "low")
    small = of({s: s + 1.0 for s in range(seeds)}, dict.fromkeys(range(seeds), 1e-300), "low")
    assert found.verdict == small.verdict == verdict
    assert (found.mean, found.low, found.high) == pytest.approx(
        [1e300 * v for v in (small.mean, small.low, small.high)]
    )


def test_each_curve_is_compared_with_the_baseline_and_with_the_best():
    third = {s: v + 0.1 + s / 1000 for s, v in OWN.items()}
    found = differences({"fedavg": OTHER, "mine": OWN, "best": third}, "fedavg", "high")
    assert {label: [(d.against, d.reference) for d in each] for label, each in found.items()} == {
        "fedavg": [("best", "best")],
        "mine": [("fedavg", "fedavg"), ("best", "best")],
        "best": [("fedavg", "fedavg")],
    }
    found = differences({"fedavg": OWN, "mine": OTHER}, "fedavg", "high")
    assert {label: [d.against for d in each] for label, each in found.items()} == {"fedavg": [], "mine": ["fedavg"]}
    found = differences({"a": OWN, "b": OTHER}, None, "low")
    assert {label: [d.reference for d in each] for label, each in found.items()} == {"a": ["b"], "b": []}
    assert differences({"a": {}, "b": {0: None}}, None, "high") == {"a": (), "b": ()}


# Of runs


def row(runs: list, label: str) -> Row:
    return next(row for row in summarise(runs).rows if row.label == label)


def test_the_differences_of_runs_are_those_of_the_means_of_their_last_evaluations(folder: Folder):
    ends = {"fedavg": [(0.5, 0.7), (0.4, 0.8), (0.5, 0.5)], "ghbm": [(0.7, 0.9), (0.7, 0.8), (0.6, 0.7)]}
    runs = [folder(name, s, [0.1] * 18 + [*end]) for name, each in ends.items() for s, end in enumerate(each)]
    (found,) = row(runs, "ghbm").differences
    own, other = ([statistics.fmean(end) for end in ends[name]] for name in ("ghbm", "fedavg"))
    expected = stats.ttest_rel(own, other).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((float(expected.low), float(expected.high)))
    assert (found.against, found.reference, found.seeds) == ("fedavg", "fedavg", 3)


def test_runs_that_diverged_or_have_not_ended_are_not_paired(folder: Folder):
    runs = [folder("fedavg", s, [0.5 + s / 100]) for s in range(4)]
    runs += [folder("ghbm", s, [0.7 + s / 50]) for s in range(2)]
    runs += [folder("ghbm", 2, [0.9], "run.rounds=1", status="diverged"), folder("ghbm", 3, [0.1], status=None)]
    (found,) = row(runs, "ghbm").differences
    assert (found.seeds, found.diverged) == (2, 1)
    assert found.mean == pytest.approx(0.2 + 0.005)


def test_runs_with_other_data_or_another_division_of_them_are_not_paired(folder: Folder):
    runs = [folder("fedavg", s, [0.5 + s / 100], "data.clients=10") for s in (0, 1)]
    runs += [folder("ghbm", s, [0.7 + s / 50], "data.clients=20") for s in (0, 1)]
    assert row(runs, "ghbm").differences == ()
    runs = [folder("fedavg", s, [0.5 + s / 100]) for s in (0, 1)]
    runs += [folder("scaffold", s, [0.7 + s / 50], "data.seed=7") for s in (0, 1)]
    assert row(runs, "scaffold").differences == ()
