"""Simulated time: a client of n examples takes alpha*n + Exp(mean lambda*n), a round as long as its slowest client."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from driftless.config.build import simulation_of
from driftless.engine.stragglers import round_time
from runs.runs import AfterRound, resume, small, start

ROUNDS = 4000


def distance(times: np.ndarray, sizes: np.ndarray, alpha: float, lambda_: float) -> float:
    """The largest difference between the empirical distribution and the formula's: Kolmogorov and Smirnov."""
    times = np.sort(times)
    excess = np.clip(times[:, None] - alpha * sizes, 0, None) / (lambda_ * sizes)
    formula = np.prod(1 - np.exp(-excess), axis=1)
    steps = np.arange(len(times) + 1) / len(times)
    return float(max(np.abs(formula - steps[1:]).max(), np.abs(formula - steps[:-1]).max()))


@pytest.mark.parametrize(
    ("sizes", "alpha", "lambda_"),
    [([40], 0.0, 1.0), ([40], 1.0, 0.5), ([10] * 20, 1.0, 1.0), ([5, 10, 80, 81], 0.7, 2.0)],
)
def test_the_time_of_a_round_has_the_distribution_of_the_formula(sizes, alpha, lambda_):
    n = np.array(sizes)
    times = np.array([round_time(n, alpha, lambda_, 0, t) for t in range(1, ROUNDS + 1)])
    allowed = 1.63 / np.sqrt(ROUNDS)  # exceeded by one in a hundred seeds; this one is fixed
    assert distance(times, n, alpha, lambda_) < allowed
    assert distance(times, n, alpha, 1.2 * lambda_) > allowed  # the test can tell


def test_without_waiting_a_round_takes_as_long_as_its_largest_client():
    assert round_time(np.array([3, 9, 5]), 2.0, 0.0, 0, 1) == 18.0


def test_the_time_depends_on_the_seed_and_the_round_and_on_nothing_else():
    sizes = np.array([10, 20])
    times = {(seed, t): round_time(sizes, 1.0, 1.0, seed, t) for seed in range(5) for t in range(1, 6)}
    assert len(set(times.values())) == 25
    assert times == {(seed, t): round_time(sizes, 1.0, 1.0, seed, t) for seed, t in reversed(times)}


def test_the_rows_have_the_time_of_their_cohort(tmp_path):
    changes = ["data.partition=dirichlet", "data.alpha=0.5", "data.sizes=lognormal", "cohort=3", "seed=2"]
    changes += ["straggler_alpha=0.5", "straggler_lambda=2"]
    rows = start(tmp_path / "run", *changes).rows
    federation = simulation_of(small(*changes).config)
    for row in rows:
        clients = federation.cohort.clients(row["round"], 20, 2)
        assert row["simulated_time"] == round_time(federation.federation.sizes[clients], 0.5, 2.0, 2, row["round"])
    exact = start(tmp_path / "exact", *changes[:-1], "straggler_lambda=0").rows
    for row in exact:
        clients = federation.cohort.clients(row["round"], 20, 2)
        assert row["simulated_time"] == 0.5 * federation.federation.sizes[clients].max()


def test_the_times_of_a_resumed_run_are_those_of_an_uninterrupted_one(tmp_path):
    cut = AfterRound([5], lambda: shutil.copytree(tmp_path / "whole", tmp_path / "cut"))
    whole = start(tmp_path / "whole", callbacks=[cut]).rows
    resumed = resume(tmp_path / "cut").rows
    assert [row["simulated_time"] for row in resumed] == [row["simulated_time"] for row in whole]
    assert len({row["simulated_time"] for row in whole}) == 8
