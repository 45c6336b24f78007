"""A membership-inference audit of the real mechanism: it stays below a true epsilon and refutes a false one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from driftless import Federation, load
from driftless.errors import InputError
from driftless.privacy import Sampling, epsilon
from driftless.privacy.audit import audit, correct_guesses, epsilon_lower_bound, p_value, with_canaries

SMALL = {"canaries": 300, "guesses": 100, "rounds": 5}


@pytest.fixture(scope="module")
def digits() -> Federation:
    return load("digits", clients=30, partition="iid", seed=0)


def test_the_lower_bound_of_a_private_run_is_below_its_epsilon_and_above_zero(digits):
    found = audit(digits, noise_multiplier=2.0, **SMALL)
    assert found.claimed == epsilon(2.0, 1e-5, 5, Sampling("poisson", 100, 100))
    assert 0.3 < found.lower_bound < found.claimed


def test_noise_that_is_smaller_than_claimed_is_found_out(digits):
    """A tenth of the noise: every guess is correct, and that refutes the epsilon of the whole noise."""
    claimed = epsilon(5.0, 1e-5, 5, Sampling("poisson", 100, 100))
    honest, broken = (audit(digits, noise_multiplier=z, **SMALL) for z in (5.0, 0.5))
    assert honest.lower_bound < claimed < broken.lower_bound
    assert "guesses about 300 canaries are correct: epsilon >= " in str(broken)


def test_guesses_at_random_refute_nothing():
    assert epsilon_lower_bound(1000, 200, 100, 1e-5) == 0
    assert epsilon_lower_bound(1000, 200, 40, 1e-5) == 0


def test_without_delta_the_bound_is_the_confidence_bound_of_a_binomial_probability():
    """Theorem 5.1 of the paper: e^eps/(1 + e^eps) is at least the Clopper-Pearson bound."""
    found = epsilon_lower_bound(1000, 100, 90, delta=0.0)
    probability = 1 / (1 + math.exp(-found))
    assert binom.sf(89, 100, probability) == pytest.approx(0.05, abs=1e-6)
    assert epsilon_lower_bound(1000, 100, 100, delta=0.0) == pytest.approx(-math.log(0.05 ** (-1 / 100) - 1), abs=1e-6)


def test_delta_makes_the_bound_smaller():
    bounds = [epsilon_lower_bound(1000, 100, 90, delta) for delta in (0.0, 1e-6, 1e-5, 1e-4)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > bounds[-1]


def test_the_p_value_is_the_formula_of_the_paper_written_out():
    k, r, v, eps, delta = 50, 20, 15, 0.5, 1e-3
    q = math.exp(eps) / (1 + math.exp(eps))

    def tail(n: int) -> float:
        return sum(math.comb(r, i) * q**i * (1 - q) ** (r - i) for i in range(max(n, 0), r + 1))

    expected = tail(v) + 2 * k * delta * max((tail(v - i) - tail(v)) / i for i in range(1, k + 1))
    assert p_value(k, r, v, eps, delta) == pytest.approx(expected, rel=1e-10)


def test_the_highest_scores_are_guessed_in_and_the_lowest_out():
    scores, included = np.array([5.0, -1.0, 0.1, 3.0, -2.0]), np.array([True, False, True, False, True])
    assert correct_guesses(scores, included, 2) == 1  # client 0 is in; client 4, guessed out, is in
    assert correct_guesses(scores, included, 4) == 2


def test_a_canary_is_a_client_with_a_feature_of_its_own(digits):
    made = with_canaries(digits, np.array([3, 4, 5]), np.array([True, False, True]))
    assert made.clients == digits.clients + 2
    assert made.input_shape == (64 + 3,)
    assert made.inputs[-2:, 64:].tolist() == [[100, 0, 0], [0, 0, 100]]
    assert made.targets[-2:].tolist() == [3, 5]
    assert not made.inputs[:-2, 64:].any()


def test_more_guesses_than_canaries_are_an_error(digits):
    with pytest.raises(InputError, match="guesses of an audit must be a whole number of at most 10"):
        audit(digits, noise_multiplier=1.0, canaries=10, guesses=11)
