"""GHBM's Lemma 4.6: both sides of its bound, by hand and along runs."""

from __future__ import annotations

import json

import pytest
import torch

from driftless.data import load
from driftless.papers.ghbm import lemma_4_6
from driftless.papers.ghbm.lemma_4_6 import Passed, error_and_terms, gradients_at, largest_curvature
from driftless.papers.ghbm.quadratics import client_gradients


def test_the_study_retraces_the_runs_and_finds_the_bound_kept_for_short_delays():
    values = lemma_4_6.lemma_4_6(**lemma_4_6.SMOKE)
    assert json.loads(json.dumps(values)) == values
    assert values["mismatch"] < 1e-12
    for found in values["random"]["2"].values():
        assert 0 < found["mean"] <= found["round"] < 1


def test_the_bound_is_exceeded_for_long_delays_by_the_factor_of_equal_steps():
    """Steps of equal length s: the error is L^2 s^2 (tau - 1)^2/4, the printed bound 6 L^2 s^2 (tau - 1)."""
    options = {**lemma_4_6.SMOKE, "steps": (1,), "clients": 2, "cohort": 2, "orders": 1, "slow_taus": (40,)}
    slow = lemma_4_6.lemma_4_6(**options)["slow"]["40"]
    assert slow["printed"] == pytest.approx(39 / 24, rel=0.05)
    assert slow["printed"] > 1 > slow["repaired"]


def test_both_sides_of_the_lemma_by_hand():
    """One dimension, A = 1 for all, two clients in turn: gradients x - x_i*, whose errors are those of the models."""
    federation = load("quadratics", clients=2, dimension=1, heterogeneity=0.0, condition=1.0)
    assert largest_curvature(federation) == pytest.approx(1.0)
    x, older, m = (torch.tensor([value], dtype=torch.float64) for value in (2.0, 5.0, 0.5))
    first = gradients_at(federation, older.expand(2, -1))
    second = gradients_at(federation, x.expand(2, -1))
    torch.testing.assert_close(second, client_gradients(federation, x))
    last = [
        Passed(torch.tensor([0]), older, first[0], 0.3, first, m),
        Passed(torch.tensor([1]), x, second[1], 0.1, second, m),
    ]
    error, drift, lag = error_and_terms(federation, last, smoothness=1.0, eta=0.5)
    assert error == pytest.approx(((5.0 - 2.0) / 2) ** 2)
    assert drift == pytest.approx((0.3 + 0.1) / 2)
    gradient = float(first.mean())
    assert lag == pytest.approx(2 * 0.5**2 * (gradient**2 + (gradient - 0.5) ** 2))
