from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftless.data.partition import (
    _log_dirichlet,
    _siblings_first,
    allocate,
    apportion,
    dirichlet,
    iid,
    natural,
    pachinko,
    prior_dirichlet,
    shards,
)
from driftless.errors import InputError

# every partition by labels, as a function of (labels, clients, rng)
RULES = {
    "iid": lambda labels, clients, rng: iid(len(labels), clients, rng),
    "dirichlet": lambda labels, clients, rng: dirichlet(labels, clients, 0.3, rng),
    "dirichlet, tiny alpha": lambda labels, clients, rng: dirichlet(labels, clients, 1e-3, rng),
    "dirichlet, denormal alpha": lambda labels, clients, rng: dirichlet(labels, clients, 1e-320, rng),
    "dirichlet, huge alpha": lambda labels, clients, rng: dirichlet(labels, clients, 1e9, rng),
    "dirichlet, lognormal": lambda labels, clients, rng: dirichlet(labels, clients, 0.3, rng, sizes="lognormal"),
    "dirichlet, wild sizes": lambda labels, clients, rng: dirichlet(labels, clients, 0.3, rng, "lognormal", 50.0),
    "prior-dirichlet": lambda labels, clients, rng: prior_dirichlet(labels, clients, 0.3, rng),
    "prior-dirichlet, tiny alpha": lambda labels, clients, rng: prior_dirichlet(labels, clients, 1e-3, rng),
    "shards": lambda labels, clients, rng: shards(labels, clients, rng),
    "shards, many": lambda labels, clients, rng: shards(labels, clients, rng, shards_per_client=50),
    "pachinko": lambda labels, clients, rng: pachinko(labels, np.asarray(labels) // 3, clients, rng),
    "pachinko, tiny": lambda labels, clients, rng: pachinko(labels, np.asarray(labels) // 3, clients, rng, 1e-3, 1e-3),
}
BALANCED = [name for name in RULES if "shards" not in name and "sizes" not in name and "lognormal" not in name]


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, int, np.random.Generator]:
    clients = draw(st.integers(1, 30))
    labels = draw(st.lists(st.integers(0, 12), min_size=clients, max_size=200))
    return np.array(labels), clients, np.random.default_rng(draw(st.integers(0, 2**32)))


def skew(labels: np.ndarray, assignment: np.ndarray) -> float:
    """Mean total-variation distance between the label distribution of a client and the global one."""
    overall = np.bincount(labels) / len(labels)
    distances = []
    for client in range(assignment.max() + 1):
        own = labels[assignment == client]
        distances.append(0.5 * np.abs(np.bincount(own, minlength=len(overall)) / len(own) - overall).sum())
    return float(np.mean(distances))


def uniform_labels(n: int = 2000, classes: int = 10) -> np.ndarray:
    return np.arange(n) % classes


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=25)
@given(problem=problems())
def test_every_example_has_one_client_no_client_is_empty_and_balanced_sizes_differ_by_at_most_one(name, problem):
    labels, clients, rng = problem
    assignment = RULES[name](labels, clients, rng)
    assert assignment.shape == labels.shape
    assert assignment.dtype == np.int64
    assert set(assignment) == set(range(clients))
    if name in BALANCED:
        assert np.ptp(np.bincount(assignment)) <= 1


@pytest.mark.parametrize("name", RULES)
def test_the_same_seed_gives_the_same_partition_and_another_seed_another(name):
    labels = uniform_labels()
    first, again, other = (RULES[name](labels, 40, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("name", RULES)
def test_fewer_examples_than_clients_is_an_error(name):
    with pytest.raises(InputError, match="3 examples are too few for 4 clients; use at most 3"):
        RULES[name](np.array([0, 1, 2]), 4, np.random.default_rng(0))


@pytest.mark.parametrize("rule", [dirichlet, prior_dirichlet])
def test_label_skew_grows_as_alpha_falls(rule):
    labels = uniform_labels()
    skews = [skew(labels, rule(labels, 50, alpha, np.random.default_rng(0))) for alpha in (1000.0, 10, 1, 0.1, 1e-3)]
    assert skews == sorted(skews)
    assert skews[0] < 0.2
    assert skews[-1] > 0.75  # one label per client is 0.9


def test_a_large_alpha_is_like_iid():
    labels = uniform_labels(20000)
    iid_skew = skew(labels, iid(len(labels), 50, np.random.default_rng(0)))
    assert skew(labels, dirichlet(labels, 50, 1e5, np.random.default_rng(0))) == pytest.approx(iid_skew, rel=0.2)
    assert skew(labels, prior_dirichlet(labels, 50, 1e6, np.random.default_rng(0))) == pytest.approx(iid_skew, rel=0.2)


def test_prior_dirichlet_centres_on_the_global_distribution():
    labels = np.repeat([0, 1], [9000, 1000])
    assignment = prior_dirichlet(labels, 100, 1e6, np.random.default_rng(0))
    share = np.bincount(assignment, weights=labels) / np.bincount(assignment)
    assert np.abs(share - 0.1).max() < 0.15


@settings(max_examples=30)
@given(problem=problems())
def test_prior_dirichlet_with_alpha_zero_gives_every_client_a_single_label(problem):
    labels, clients, rng = problem
    if clients < len(set(labels)):
        with pytest.raises(InputError, match=f"at least {len(set(labels))} clients"):
            prior_dirichlet(labels, clients, 0, rng)
        return
    assignment = prior_dirichlet(labels, clients, 0, rng)
    assert set(assignment) == set(range(clients))
    assert all(len(set(labels[assignment == client])) == 1 for client in range(clients))
    for label in set(labels):  # the examples of a label are split evenly among its clients
        shares = np.bincount(assignment[labels == label])
        assert np.ptp(shares[shares > 0]) <= 1


def test_alpha_zero_gives_clients_to_labels_in_proportion_to_their_counts():
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    assignment = prior_dirichlet(labels, 10, 0, np.random.default_rng(0))
    assert [len(set(assignment[labels == label])) for label in range(3)] == [6, 3, 1]
    assert (np.bincount(assignment) == 100).all()


def test_shards_give_at_most_that_many_labels_when_shards_do_not_cross_labels():
    labels = np.random.default_rng(0).permutation(uniform_labels(6000))
    assignment = shards(labels, 100, np.random.default_rng(1))  # 200 shards of 30, 20 for each label
    assert (np.bincount(assignment) == 60).all()
    assert max(len(set(labels[assignment == client])) for client in range(100)) <= 2


def test_pachinko_concentrates_on_coarse_labels_as_alpha_falls_and_on_fine_ones_as_beta_falls():
    fine = uniform_labels(4000, 100)
    coarse = fine // 5

    def skews(alpha, beta):
        assignment = pachinko(fine, coarse, 40, np.random.default_rng(0), alpha, beta)
        return skew(coarse, assignment), skew(fine, assignment)

    concentrated, spread = skews(0.01, 1000.0), skews(1000.0, 1000.0)
    assert concentrated[0] > 0.8 > 0.3 > spread[0]
    assert skews(1000.0, 0.01)[1] > spread[1] + 0.1


def test_the_mass_of_an_exhausted_fine_label_goes_to_its_siblings_first():
    # fine labels 0 and 1 are under coarse label 0 (mass 0.5), 2 and 3 under coarse label 1 (mass 0.5)
    priors, parent = np.log([[0.4, 0.1, 0.3, 0.2]]), np.array([0, 0, 1, 1])
    one_gone = np.exp(_siblings_first(priors, np.array([False, True, True, True]), parent))
    np.testing.assert_allclose(one_gone, [[0, 0.5, 0.3, 0.2]])
    coarse_gone = np.exp(_siblings_first(priors, np.array([False, False, True, True]), parent))
    np.testing.assert_allclose(coarse_gone, [[0, 0, 0.3, 0.2]])


def test_pachinko_without_coarse_labels_says_what_to_give():
    with pytest.raises(InputError, match="give the coarse label of each example"):
        pachinko([0, 1], None, 2, np.random.default_rng(0))
    with pytest.raises(InputError, match="one coarse label per example"):
        pachinko([0, 1], [0, 1, 2], 2, np.random.default_rng(0))


def test_a_fine_label_under_two_coarse_labels_is_an_error():
    with pytest.raises(InputError, match="exactly one coarse label"):
        pachinko([0, 1, 1, 0], [0, 1, 1, 1], 2, np.random.default_rng(0))


def test_natural_numbers_the_users_by_first_appearance():
    assignment, names = natural(["b", "a", "b", "c", "a"])
    assert assignment.tolist() == [0, 1, 0, 2, 1]
    assert names == ("b", "a", "c")
    assert natural(np.array([7, 3, 7]))[0].tolist() == [0, 1, 0]
    assert natural([("x", 1), ("x", 2), ("x", 1)])[0].tolist() == [0, 1, 0]


@pytest.mark.parametrize("users", [[], [["a"], ["b"]], np.zeros((2, 2))])
def test_users_that_are_no_names_are_an_error(users):
    with pytest.raises(InputError, match="users"):
        natural(users)


def test_allocate_gives_clients_with_disjoint_priors_exactly_what_they_want():
    labels, never = np.array([0, 1, 0, 1, 0]), -np.inf
    assignment = allocate(labels, np.array([3, 2]), np.array([[0, never], [never, 0]]), np.random.default_rng(0))
    assert assignment.tolist() == [0, 1, 0, 1, 0]


def test_allocate_fills_up_from_what_is_left_when_a_prior_has_no_mass_left():
    labels = np.repeat([0, 1, 2], [2, 50, 50])
    priors = np.array([[0, -np.inf, -np.inf], [0.0, 0.0, 0.0]])
    assignment = allocate(labels, np.array([40, 62]), priors, np.random.default_rng(0))
    own = np.bincount(labels[assignment == 0], minlength=3)
    assert own.sum() == 40
    assert min(own[1], own[2]) > 8  # in proportion to the supply: about 19 each


def test_allocate_follows_the_prior_where_the_supply_is_ample():
    labels = uniform_labels(60000, 3)
    prior = np.array([0.7, 0.2, 0.1])
    others = (20000 - 2000 * prior) / 58000
    assignment = allocate(labels, np.array([2000, 58000]), np.log([prior, others]), np.random.default_rng(0))
    own = np.bincount(labels[assignment == 0]) / 2000
    np.testing.assert_allclose(own, prior, atol=4 * np.sqrt(0.25 / 2000))


def test_allocate_needs_at_most_one_pass_per_label_even_when_all_clients_want_the_same_labels():
    labels, passes = uniform_labels(600, 12), []

    def counted(priors, available):
        passes.append(int(available.sum()))
        return np.where(available, priors, -np.inf)

    everyone_alike = np.tile(-100.0 * np.arange(12), (60, 1))
    allocate(labels, np.full(60, 10), everyone_alike, np.random.default_rng(0), counted)
    assert passes == list(range(12, 0, -1))


@pytest.mark.parametrize("alpha", [0.05, 1.0, 30.0])
def test_label_probabilities_have_the_mean_and_variance_of_a_dirichlet_distribution(alpha):
    weights = np.exp(_log_dirichlet(np.full(5, alpha), 40_000, np.random.default_rng(0)))
    shares = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares.mean(axis=0), 1 / 5, rtol=0.05)
    np.testing.assert_allclose(shares.var(axis=0), 0.2 * 0.8 / (5 * alpha + 1), rtol=0.05)


def test_lognormal_sizes_have_the_given_deviation_of_the_logarithm():
    sizes = np.bincount(dirichlet(uniform_labels(100_000), 500, 1.0, np.random.default_rng(0), "lognormal", 0.3))
    assert np.log(sizes).std() == pytest.approx(0.3, rel=0.15)


@settings(max_examples=100)
@given(weights=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40), extra=st.integers(0, 1000))
def test_apportion_gives_at_least_one_and_is_within_one_of_the_quota_when_no_quota_is_small(weights, extra):
    array, total = np.array(weights), len(weights) + extra
    shares = apportion(array, total)
    assert shares.sum() == total
    assert shares.min() >= 1
    quota = array / array.sum() * total
    if quota.min() >= 1:
        assert np.abs(shares - quota).max() < 1
    assert (np.diff(shares[np.argsort(array, kind="stable")]) >= -1).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: dirichlet([0, 1], 2, 0, rng), r"alpha must be a number in \(0, inf\), got 0"),
        (lambda rng: dirichlet([0, 1], 2, float("nan"), rng), "alpha must be"),
        (lambda rng: dirichlet([0, 1], 2, 1.0, rng, sizes="log"), "sizes must be one of 'balanced', 'lognormal'"),
        (lambda rng: dirichlet([0, 1], 2, 1.0, rng, sizes="lognormal", sigma=-1), "sigma must be"),
        (lambda rng: prior_dirichlet([0, 1], 2, -0.1, rng), r"alpha must be a number in \[0, inf\), got -0.1"),
        (lambda rng: pachinko([0, 1], [0, 1], 2, rng, alpha=0), "alpha must be"),
        (lambda rng: pachinko([0, 1], [0, 1], 2, rng, beta=0), "beta must be"),
        (
            lambda rng: shards([0, 1], 2, rng, shards_per_client=0),
            "shards_per_client must be a whole number of at least 1",
        ),
        (lambda rng: iid(10, 0, rng), "clients must be a whole number of at least 1, got 0"),
        (lambda rng: iid(10, 2.0, rng), "clients must be a whole number of at least 1, got 2.0"),
        (lambda rng: dirichlet([0.5, 1.5], 2, 1.0, rng), "one integer label per example, got float64"),
        (lambda rng: dirichlet([[0], [1]], 2, 1.0, rng), r"of shape \[2, 1\]"),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_allowed(call, message):
    with pytest.raises(InputError, match=message):
        call(np.random.default_rng(0))


@pytest.mark.parametrize("name", ["iid", "dirichlet, tiny alpha", "prior-dirichlet", "shards", "pachinko, tiny"])
def test_sixty_thousand_examples_over_ten_thousand_clients_take_less_than_five_seconds(name):
    labels = np.random.default_rng(0).permutation(uniform_labels(60_000, 100))
    start = time.perf_counter()
    RULES[name](labels, 10_000, np.random.default_rng(1))
    assert time.perf_counter() - start < 5
