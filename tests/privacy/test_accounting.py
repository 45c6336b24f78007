"""Epsilon against published numbers and closed forms; each number names its source."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from driftless.errors import InputError
from driftless.privacy import Sampling, epsilon, noise_for
from driftless.privacy.accounting import PLD_POINTS, default_delta, divergences_of_a_round, epsilon_so_far


def poisson(q: float, clients: int = 10**6) -> Sampling:
    return Sampling("poisson", clients, q * clients)


def of_the_moments_accountant(q: float, z: float, rounds: int, delta: float, orders: range | None) -> float:
    """From our divergences, by the conversion that papers used before 2020 (Mironov 2017, Proposition 3)."""
    found, divergences = divergences_of_a_round(z, poisson(q))
    kept = np.isin(found, orders) if orders else found > 1.01
    return float((rounds * divergences[kept] - math.log(delta) / (found[kept] - 1)).min())


@pytest.mark.parametrize(
    ("q", "z", "rounds", "delta", "orders", "published", "digits"),
    [
        # Abadi et al., Deep Learning with Differential Privacy, CCS 2016, section 3.2: "1.26" for q = 0.01, sigma = 4,
        # T = 10000, delta = 1e-5, by moments up to 32.
        (0.01, 4.0, 10_000, 1e-5, range(2, 34), 1.26, 2),
        # McMahan et al., Learning Differentially Private Recurrent Language Models, ICLR 2018: "(4.634, 1e-9)" for
        # 763,430 users, 5000 of them expected in a round, z = 1, 5000 rounds.
        (5000 / 763_430, 1.0, 5000, 1e-9, range(2, 34), 4.634, 3),
        # Bu, Dong, Long, Su, Deep Learning with Gaussian Differential Privacy, HDSR 2020, figure 4: "8.68" by the
        # moments accountant for p = 256/60000, sigma = 0.7, 70 epochs, delta = 1e-5.
        (256 / 60_000, 0.7, 70 * 60_000 // 256, 1e-5, None, 8.68, 2),
    ],
)
def test_with_the_conversion_of_their_time_the_divergences_give_the_published_epsilons(
    q, z, rounds, delta, orders, published, digits
):
    assert round(of_the_moments_accountant(q, z, rounds, delta, orders), digits) == published
    # What we report uses the tighter conversion of Canonne et al. 2020, and PLD is tighter still.
    rdp, pld = (epsilon(z, delta, rounds, poisson(q), accountant) for accountant in ("rdp", "pld"))
    assert pld < rdp < published


@pytest.mark.parametrize(
    ("examples", "batch", "z", "epochs", "delta", "published"),
    [
        # compute_dp_sgd_privacy_test.py of TensorFlow Privacy: Test0 and Test1.
        (60_000, 150, 1.3, 15, 1e-5, 0.7242234026109595),
        (100_000, 100, 1.0, 30, 1e-7, 1.4154988495444845),
    ],
)
def test_epsilon_by_rdp_is_that_of_tensorflow_privacy(examples, batch, z, epochs, delta, published):
    rounds = math.ceil(epochs * examples / batch)
    assert epsilon(z, delta, rounds, Sampling("poisson", examples, batch)) == pytest.approx(published, abs=1e-6)


def gaussian_epsilon(sigma: float, delta: float) -> float:
    """Of one Gaussian mechanism of sensitivity 1: Balle and Wang, ICML 2018, Theorem 8."""

    def excess(eps: float) -> float:
        a, b = 1 / (2 * sigma), eps * sigma
        return norm.cdf(a - b) - math.exp(eps + norm.logcdf(-a - b)) - delta

    return float(brentq(excess, 0, 200))


@pytest.mark.parametrize(("z", "rounds", "delta"), [(1.0, 1, 1e-5), (5.0, 20, 1e-5), (3.0, 100, 1e-3)])
def test_without_sampling_pld_is_the_exact_gaussian_mechanism_and_rdp_is_a_little_above(z, rounds, delta):
    exact = gaussian_epsilon(z / math.sqrt(rounds), delta)
    for sampling in (Sampling("", 100, 10), Sampling("poisson", 100, 100)):
        assert epsilon(z, delta, rounds, sampling, "pld") == pytest.approx(exact, abs=1e-3)
        assert exact < epsilon(z, delta, rounds, sampling, "rdp") < 1.15 * exact


def test_a_fixed_cohort_of_all_clients_is_a_gaussian_mechanism_of_twice_the_sensitivity():
    """One client replaced changes the sum by 2 S: the closed form at half the noise multiplier."""
    exact = gaussian_epsilon(5.0 / 2 / math.sqrt(20), 1e-5)
    found = epsilon(5.0, 1e-5, 20, Sampling("fixed", 100, 100))
    assert exact < found < 1.1 * exact


def test_a_fixed_cohort_is_bounded_by_wang_balle_kasiviswanathan_with_half_the_noise_multiplier():
    """Their Theorem 27 at order 2: log(1 + q^2 * min(4 (e^eps(2) - 1), 2 e^eps(2))), eps(2) = 2 * 2^2/(2 z^2) / 2."""
    z, q = 3.0, 0.1
    of_gaussian = 2 / (2 * (z / 2) ** 2)
    bound = math.log1p(q**2 * min(4 * math.expm1(of_gaussian), 2 * math.exp(of_gaussian)))
    orders, divergences = divergences_of_a_round(z, Sampling("fixed", 100, 10))
    assert divergences[list(orders).index(2)] == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_the_solved_noise_reaches_the_target_and_hardly_less_would_not(accountant):
    z = noise_for(4.0, 1e-4, 50, poisson(0.05), accountant)
    assert 3.99 < epsilon(z, 1e-4, 50, poisson(0.05), accountant) <= 4.0
    assert epsilon(z - 0.001, 1e-4, 50, poisson(0.05), accountant) > 4.0


def test_the_noise_for_a_fixed_cohort_is_solved_too():
    fixed = Sampling("fixed", 1000, 50)
    z = noise_for(8.0, default_delta(1000), 30, fixed)
    assert 7.98 < epsilon(z, default_delta(1000), 30, fixed) <= 8.0


def test_a_target_that_needs_no_noise_worth_the_name_is_an_error():
    with pytest.raises(InputError, match=r"needs less noise than a multiplier of 0\.05"):
        noise_for(1e9, 1e-5, 1, poisson(0.1))


def test_epsilon_is_infinite_without_noise_and_zero_without_rounds():
    assert epsilon(0.0, 1e-5, 1, poisson(0.1)) == math.inf
    assert epsilon(1.0, 1e-5, 0, poisson(0.1)) == 0.0


def test_epsilon_grows_with_the_rounds_and_ends_at_that_of_the_run():
    for accountant in ("rdp", "pld"):
        rows = [epsilon_so_far(2.0, 1e-3, t, 10 * PLD_POINTS, poisson(0.1), accountant) for t in (1, 5, 10, 195, 200)]
        assert rows == sorted(rows)
        assert rows[-1] == epsilon(2.0, 1e-3, 200, poisson(0.1), accountant)
        assert all(
            row >= epsilon(2.0, 1e-3, t, poisson(0.1), accountant) for row, t in zip(rows, (1, 5, 10), strict=False)
        )
    assert len(set(rows)) == 2  # by PLD in rounds 10, 20, ..., which is no less than the rounds before them


def test_pld_refuses_cohorts_that_it_does_not_know():
    with pytest.raises(InputError, match="accountant=rdp, or draw cohorts with cohort=poisson"):
        epsilon(1.0, 1e-5, 10, Sampling("fixed", 100, 10), "pld")


def test_a_missing_library_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(InputError, match=r"pip install driftless\[privacy\]"):
        noise_for(1.0, 1e-5, 10, poisson(0.1))


def test_nothing_is_logged_about_orders_that_are_left_out(capfd):
    epsilon(1.0001, 1e-5, 10, poisson(0.1))
    assert capfd.readouterr().err == ""
