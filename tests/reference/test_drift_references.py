"""Identities between the references of FedProx, SCAFFOLD, FedDyn and AdaBest.

A slip in one of them breaks an equation that must hold.
"""

from __future__ import annotations

import numpy as np
import pytest

from .algorithms import (
    adabest,
    fedavg,
    fedcm,
    feddyn,
    fedprox,
    scaffold,
    scaffold_momentum,
    scaffold_slim,
)
from .runs import (
    COHORTS,
    EVERYONE,
    LR,
    PROBLEM,
    SIZE,
    START,
    UNEQUAL_STEPS,
    assert_different,
    assert_same,
    decaying,
    random_problem,
    run,
)


def test_fedprox_without_its_term_is_fedavg():
    assert_same(run(fedprox, mu=0.0), run(fedavg, weighting="uniform"))
    assert_different(run(fedprox, mu=0.5), run(fedavg, weighting="uniform"))


def test_many_steps_of_fedprox_reach_the_proximal_point():
    mu = 0.7
    features, targets = PROBLEM.clients[1]
    curvature = features.T @ features / len(targets) + (PROBLEM.weight_decay + mu) * np.eye(SIZE)
    proximal_point = np.linalg.solve(curvature, features.T @ targets / len(targets) + mu * START)
    np.testing.assert_allclose(run(fedprox, [[1]], steps=2000, mu=mu)[0]["x"], proximal_point, atol=1e-9)


def test_the_first_participation_of_feddyn_is_a_round_of_fedprox():
    dyn, prox = run(feddyn, COHORTS[:1], mu=0.7)[0], run(fedprox, COHORTS[:1], mu=0.7)[0]
    np.testing.assert_allclose(dyn["aggregate"], prox["aggregate"], atol=1e-14)


@pytest.mark.parametrize("retention", ["exact", "paper"])
def test_scaffold_slim_is_scaffold_with_equal_steps(retention):
    cohorts = COHORTS if retention == "exact" else [[i] for i in (0, 3, 1, 3, 5, 0, 2)]
    slim = run(scaffold_slim, cohorts, retention=retention)
    full = run(scaffold, cohorts)
    assert_same(slim, full, keys=("x", "aggregate", "c_i"))
    for a, b in zip(slim, full, strict=True):
        np.testing.assert_allclose(a["h"], b["c"], atol=1e-12)
    assert_different(full, run(fedavg, cohorts, weighting="uniform"))


def test_the_printed_retention_is_not_scaffold_for_larger_cohorts():
    assert_different(run(scaffold_slim, retention="paper"), run(scaffold))


def test_the_two_options_of_scaffold_agree_at_one_full_batch_step():
    assert_same(run(scaffold, steps=1, option=1), run(scaffold, steps=1, option=2), keys=("x", "c", "c_i"))
    assert_different(run(scaffold, option=1), run(scaffold, option=2))


@pytest.mark.parametrize("option", [1, 2])
def test_the_server_control_of_scaffold_is_the_mean_of_the_client_controls(option):
    for record in run(scaffold, steps=UNEQUAL_STEPS, lr=decaying, option=option):
        np.testing.assert_allclose(record["c"], record["c_i"].mean(axis=0), atol=1e-12)


def test_scaffold_momentum_that_weighs_only_the_new_gradient_is_scaffold():
    momentum = run(scaffold_momentum, steps=UNEQUAL_STEPS, lr=decaying, beta=1.0, server_lr=0.8)
    assert_same(momentum, run(scaffold, steps=UNEQUAL_STEPS, lr=decaying, server_lr=0.8), keys=("x", "c", "c_i"))
    assert_different(momentum, run(scaffold_momentum, steps=UNEQUAL_STEPS, lr=decaying, server_lr=0.8))


def test_scaffold_momentum_with_a_single_client_is_fedcm():
    alone = random_problem(examples=(9,))
    momentum = run(scaffold_momentum, [[0]] * 6, problem=alone, beta=0.3, server_lr=0.8)
    cm = run(fedcm, [[0]] * 6, problem=alone, alpha=0.3, server_lr=0.8)
    assert_same(momentum, cm)
    for a, b in zip(momentum, cm, strict=True):
        np.testing.assert_allclose(a["v"], b["m"], atol=1e-12)


def uniform_minimiser(problem):
    curvature = sum(features.T @ features / len(targets) for features, targets in problem.clients)
    linear = sum(features.T @ targets / len(targets) for features, targets in problem.clients)
    return np.linalg.solve(curvature + problem.N * problem.weight_decay * np.eye(SIZE), linear)


@pytest.mark.parametrize(("algorithm", "hyper"), [(scaffold, {}), (scaffold_slim, {}), (feddyn, {"mu": 1.0})])
def test_the_drift_corrections_reach_the_minimiser_of_the_mean_objective(algorithm, hyper):
    final = run(algorithm, [list(range(6))] * 400, **hyper)[-1]["aggregate"]
    np.testing.assert_allclose(final, uniform_minimiser(PROBLEM), atol=1e-6)
    biased = run(fedavg, [list(range(6))] * 400, weighting="uniform")[-1]["aggregate"]
    assert np.abs(biased - uniform_minimiser(PROBLEM)).max() > 1e-3


def test_both_forms_of_scaffold_and_of_feddyn_agree_exactly_when_the_clients_are_equally_large():
    equal = random_problem(examples=(8,) * 6)
    for algorithm, hyper in ((scaffold, {"option": 1}), (scaffold, {"option": 2}), (feddyn, {"mu": 0.3})):
        adaptive = run(algorithm, problem=equal, size_adaptive=True, **hyper)
        assert_same(adaptive, run(algorithm, problem=equal, **hyper))
        assert_different(run(algorithm, size_adaptive=True, **hyper), run(algorithm, **hyper))


@pytest.mark.parametrize(
    ("algorithm", "hyper"), [(scaffold, {"option": 1}), (scaffold, {"option": 2}), (feddyn, {"mu": 1.0})]
)
def test_the_size_adaptive_forms_reach_the_minimiser_of_the_mean_over_all_examples(algorithm, hyper):
    final = run(algorithm, [list(range(6))] * 600, size_adaptive=True, **hyper)[-1]["aggregate"]
    features, targets = (np.concatenate(part) for part in zip(*PROBLEM.clients, strict=True))
    curvature = features.T @ features / len(targets) + PROBLEM.weight_decay * np.eye(SIZE)
    minimiser = np.linalg.solve(curvature, features.T @ targets / len(targets))
    np.testing.assert_allclose(final, minimiser, atol=1e-6)
    assert np.abs(minimiser - uniform_minimiser(PROBLEM)).max() > 1e-2


@pytest.mark.parametrize("size_adaptive", [True, False])
def test_adabest_with_zeros_is_fedavg(size_adaptive):
    zeros = run(adabest, steps=UNEQUAL_STEPS, mu=0.0, beta=0.0, size_adaptive=size_adaptive)
    assert_same(zeros, run(fedavg, steps=UNEQUAL_STEPS, weighting="uniform"))
    assert_different(zeros, run(adabest, steps=UNEQUAL_STEPS, size_adaptive=size_adaptive))


def test_both_forms_of_adabest_agree_exactly_when_the_clients_are_equally_large():
    equal = random_problem(examples=(8,) * 6)
    hyper = {"mu": 0.3, "beta": 0.8}
    assert_same(
        run(adabest, problem=equal, size_adaptive=True, **hyper),
        run(adabest, problem=equal, size_adaptive=False, **hyper),
    )
    assert_different(run(adabest, size_adaptive=True, **hyper), run(adabest, size_adaptive=False, **hyper))


def test_adabest_keeps_the_mean_size_of_all_participations_so_far():
    sizes = []
    for cohort, record in zip(COHORTS, run(adabest), strict=True):
        sizes.extend(PROBLEM.examples(i) for i in cohort)
        assert record["r"] == pytest.approx(np.mean(sizes))


def test_the_server_state_of_adabest_is_a_power_series_of_the_pseudo_gradients():
    beta = 0.7
    x, h, previous = START, np.zeros(SIZE), START
    pseudo_gradients = []
    for t, record in enumerate(run(adabest, steps=UNEQUAL_STEPS, mu=0.3, beta=beta), start=1):
        pseudo_gradients.append(x - record["aggregate"])
        np.testing.assert_allclose(previous - record["aggregate"], h + pseudo_gradients[-1], atol=1e-13)
        series = sum(beta ** (t - s + 1) * pseudo_gradients[s - 1] for s in range(1, t + 1))
        np.testing.assert_allclose(record["h"], series, atol=1e-13)
        x, h, previous = record["x"], record["h"], record["aggregate"]


def test_feddyn_and_adabest_share_their_server_update_at_full_participation():
    assert_same(run(feddyn, EVERYONE, mu=0.0), run(adabest, EVERYONE, mu=0.0, beta=1.0), keys=("x", "h"))


def test_adabest_with_beta_one_is_feddyn_without_its_proximal_term_at_full_participation():
    mu = 0.3
    x, h, h_i = START, np.zeros(SIZE), np.zeros((6, SIZE))
    for record in run(adabest, EVERYONE, mu=mu, beta=1.0, size_adaptive=False):
        models = []
        for i in range(6):
            y = x.copy()
            for _ in range(3):
                y = y - LR * (PROBLEM.gradient(i, y) - h_i[i])
            h_i[i] += mu * (x - y)
            models.append(y)
        x_bar = np.mean(models, axis=0)
        h = h + (x - x_bar)
        x = x_bar - h
        np.testing.assert_allclose(record["x"], x, atol=1e-12)


def test_the_server_state_of_feddyn_shrinks_exactly_under_the_angle_condition():
    cohorts = [[t % 6, (t * t + 3) % 6] if t % 6 != (t * t + 3) % 6 else [t % 6] for t in range(40)]
    x, h = START, np.zeros(SIZE)
    seen = set()
    for cohort, record in zip(cohorts, run(feddyn, cohorts, mu=0.1), strict=True):
        pseudo = x - record["aggregate"]
        if np.linalg.norm(h) > 0:
            cosine = h @ pseudo / np.linalg.norm(h) / np.linalg.norm(pseudo)
            bound = -len(cohort) / 12 * np.linalg.norm(pseudo) / np.linalg.norm(h)
            shrinks = bool(np.linalg.norm(record["h"]) <= np.linalg.norm(h))
            assert shrinks == (cosine <= bound)
            seen.add(shrinks)
        x, h = record["x"], record["h"]
    assert seen == {True, False}
