"""Identities between the references: a slip in one of them breaks an equation that must hold."""

from __future__ import annotations

import inspect
from collections import deque
from itertools import pairwise

import numpy as np
import pytest

from .algorithms import (
    REFERENCES,
    Problem,
    adabest,
    adaptive_fedopt,
    fedadagrad,
    fedadam,
    fedadc,
    fedavg,
    fedavgm,
    fedcm,
    feddyn,
    fedgbo,
    fedhbm,
    fedlamb,
    fedlars,
    fedprox,
    fedsgd,
    fedyogi,
    ghbm,
    ghbm_theory,
    localghbm,
    mfl,
    mime,
    mimelite,
    mimelitemom,
    mimemom,
    normalized_fedavg,
    scaffold,
    scaffold_momentum,
    scaffold_slim,
    server_ghbm,
)

SIZE = 6
LR = 0.05
OPTIMIZERS = ["rmsprop", "sgdm", "adam"]
COHORTS = [[0, 3], [1, 4, 5], [3, 2], [0, 1, 2, 5], [4, 0], [3], [2, 4, 5], [1, 3]]
EVERYONE = [list(range(6))] * 8
UNEQUAL_STEPS = {t: {i: 1 + (2 * t + 3 * i) % 4 for i in range(6)} for t in range(1, 9)}


def random_problem(examples=(3, 20, 7, 11, 5, 16), weight_decay=0.0):
    generator = np.random.default_rng(20)
    clients = []
    for n in examples:
        features = generator.normal(size=(n, SIZE)) * generator.uniform(0.5, 1.5, size=SIZE)
        targets = features @ generator.normal(size=SIZE) + generator.normal(size=n)
        clients.append((features, targets))
    return Problem(clients=clients, layers=[slice(0, 4), slice(4, 6)], weight_decay=weight_decay)


PROBLEM = random_problem(weight_decay=0.01)
START = np.linspace(-1.0, 1.5, SIZE)


def run(algorithm, cohorts=None, steps=3, lr=LR, problem=PROBLEM, **hyper):
    history = algorithm(problem, START, COHORTS if cohorts is None else cohorts, steps, lr, **hyper)
    assert all(np.isfinite(record["x"]).all() for record in history)
    return history


def assert_same(left, right, keys=("x", "aggregate")):
    assert len(left) == len(right) > 0
    for a, b in zip(left, right, strict=True):
        for key in keys:
            np.testing.assert_allclose(a[key], b[key], rtol=0, atol=1e-12)


def assert_different(left, right):
    assert max(np.abs(a["x"] - b["x"]).max() for a, b in zip(left, right, strict=True)) > 1e-4


def decaying(t):
    return LR * 0.9 ** (t - 1)


# The problem and every reference


def test_the_gradient_is_the_slope_of_the_objective_with_weight_decay():
    problem = random_problem(weight_decay=0.3)

    def objective(i, w):
        features, targets = problem.clients[i]
        return ((features @ w - targets) ** 2).sum() / (2 * len(targets)) + 0.3 / 2 * (w**2).sum()

    for i in range(problem.N):
        for j in range(SIZE):
            bump = np.zeros(SIZE)
            bump[j] = 1e-5
            slope = (objective(i, START + bump) - objective(i, START - bump)) / 2e-5
            assert problem.gradient(i, START)[j] == pytest.approx(slope, abs=1e-7)


def test_there_is_a_reference_for_each_of_the_29_algorithms():
    assert len(REFERENCES) == 29
    assert len(set(REFERENCES.values())) == 29


@pytest.mark.parametrize("name", REFERENCES)
def test_every_reference_records_every_round_without_touching_the_start(name):
    before = START.copy()
    history = run(REFERENCES[name], steps=UNEQUAL_STEPS, lr=decaying)
    assert len(history) == len(COHORTS)
    assert (before == START).all()
    models = [START] + [record["x"] for record in history]
    for earlier, later in pairwise(models):
        assert earlier.shape == later.shape
        assert (earlier != later).any()


@pytest.mark.parametrize("name", REFERENCES)
def test_steps_can_be_a_function_a_mapping_or_a_number(name):
    by_mapping = run(REFERENCES[name], steps={t: dict.fromkeys(range(6), 2) for t in range(1, 9)})
    assert_same(by_mapping, run(REFERENCES[name], steps=lambda t, i: 2))
    assert_same(by_mapping, run(REFERENCES[name], steps=2, lr=lambda t: LR))


@pytest.mark.parametrize("name", REFERENCES)
def test_the_default_weighting_is_examples_for_the_base_family_and_uniform_elsewhere(name):
    by_examples = {
        "fedavg",
        "fedsgd",
        "fedavgm",
        "fedadagrad",
        "fedadam",
        "fedyogi",
        "fedlars",
        "fedlamb",
        "normalized-fedavg",
    }
    default, other = ("examples", "uniform") if name in by_examples else ("uniform", "examples")
    assert_same(run(REFERENCES[name]), run(REFERENCES[name], weighting=default))
    assert_different(run(REFERENCES[name]), run(REFERENCES[name], weighting=other))


@pytest.mark.parametrize("name", REFERENCES)
def test_clipping_with_a_huge_norm_changes_nothing(name):
    clipped = run(REFERENCES[name], steps=UNEQUAL_STEPS, clip={"initial": 1e9})
    assert_same(clipped, run(REFERENCES[name], steps=UNEQUAL_STEPS))
    assert clipped[-1]["rho"] == pytest.approx(1e9 * np.exp(-0.2 * 0.2 * len(COHORTS)))


@pytest.mark.parametrize("name", sorted(set(REFERENCES) - {"ghbm-theory"}))
def test_clipping_with_a_small_norm_changes_the_run_and_the_aggregate_stays_within_it(name):
    clip = {"quantile": 0.5, "lr": 0.3, "initial": 0.05}
    history = run(REFERENCES[name], clip=clip)
    assert_different(history, run(REFERENCES[name]))
    x, rho = START, 0.05
    for record in history:
        assert np.linalg.norm(record["aggregate"] - x) <= rho * (1 + 1e-9)
        x, rho = record["x"], record["rho"]


def test_the_clipping_norm_follows_the_share_of_clients_within_it():
    deltas = [-LR * PROBLEM.gradient(i, START) for i in range(6)]
    norms = sorted(np.linalg.norm(delta) for delta in deltas)
    level = (norms[1] + norms[2]) / 2
    clip = {"quantile": 0.8, "lr": 0.2, "initial": level}
    record = run(fedavg, [list(range(6))], steps=1, clip=clip, weighting="uniform")[0]
    clipped = [delta if np.linalg.norm(delta) <= level else level * delta / np.linalg.norm(delta) for delta in deltas]
    np.testing.assert_allclose(record["x"], START + sum(clipped) / 6, atol=1e-14)
    assert record["rho"] == pytest.approx(level * np.exp(-0.2 * (2 / 6 - 0.8)))


def test_client_state_under_clipping_uses_the_unclipped_model():
    clip = {"initial": 1e-6}
    for algorithm, key in [(feddyn, "h_i"), (adabest, "h_i"), (scaffold, "c_i"), (scaffold_momentum, "c_i")]:
        clipped = run(algorithm, EVERYONE[:1], clip=clip)[0]
        plain = run(algorithm, EVERYONE[:1])[0]
        np.testing.assert_allclose(clipped[key], plain[key], atol=1e-14)
        assert np.abs(clipped[key]).max() > 1e-3


# Base and FedOpt family


def test_fedavg_at_one_step_is_a_step_along_the_mean_gradient_weighted_by_examples():
    x = START
    for cohort, record in zip(COHORTS, run(fedavg, steps=1), strict=True):
        total = sum(PROBLEM.examples(i) for i in cohort)
        x = x - LR * sum(PROBLEM.examples(i) / total * PROBLEM.gradient(i, x) for i in cohort)
        np.testing.assert_allclose(record["x"], x, atol=1e-13)


def test_fedsgd_with_one_client_is_gradient_descent():
    x = START
    for record in run(fedsgd, [[1]] * 5, server_lr=0.1):
        x = x - 0.1 * PROBLEM.gradient(1, x)
        np.testing.assert_allclose(record["x"], x, atol=1e-13)


def test_fedsgd_is_fedavg_with_one_step_of_rate_one():
    assert_same(run(fedsgd, server_lr=0.1), run(fedavg, steps=1, lr=1.0, server_lr=0.1))


def test_fedavgm_without_momentum_is_fedavg():
    assert_same(run(fedavgm, momentum=0.0, server_lr=0.7), run(fedavg, server_lr=0.7))
    assert_different(run(fedavgm), run(fedavg))


def test_the_keras_and_torch_corrections_agree_when_eps_is_zero():
    keras = run(fedadam, eps=0.0, bias_correction="keras")
    assert_same(keras, run(fedadam, eps=0.0, bias_correction="torch"))
    assert_different(run(fedadam, bias_correction="keras"), run(fedadam, bias_correction="none"))
    assert_different(run(fedadam, eps=0.1, bias_correction="keras"), run(fedadam, eps=0.1, bias_correction="torch"))


def test_the_first_steps_of_the_adaptive_server_optimisers_have_their_closed_forms():
    d = START - run(fedavg, COHORTS[:1])[0]["x"]

    def step(algorithm, **hyper):
        return START - run(algorithm, COHORTS[:1], **hyper)[0]["x"]

    np.testing.assert_allclose(step(fedadagrad), 0.1 * d / (np.abs(d) + 1e-3), atol=1e-14)
    np.testing.assert_allclose(step(fedadam, bias_correction="torch"), 0.01 * d / (np.abs(d) + 1e-3), atol=1e-14)
    np.testing.assert_allclose(
        step(fedadam, bias_correction="none"), 0.01 * 0.1 * d / (0.1 * np.abs(d) + 1e-3), atol=1e-14
    )
    np.testing.assert_allclose(step(fedadam), 0.01 * 0.1 * d / (0.1 * np.abs(d) + 1e-3), atol=1e-14)
    assert (d**2 > 1e-6).all()
    v = 1e-6 + 0.01 * d**2
    np.testing.assert_allclose(step(fedyogi), 0.01 * 0.1 * d / (np.sqrt(v) + 1e-3), atol=1e-14)


def test_the_server_optimisers_follow_their_equations_over_all_rounds():
    runs = {
        "adagrad": run(fedadagrad),
        "keras": run(fedadam, bias_correction="keras"),
        "torch": run(fedadam, bias_correction="torch"),
        "none": run(fedadam, bias_correction="none"),
        "yogi": run(fedyogi),
    }
    for name, history in runs.items():
        x = START
        d_all = []
        for t, record in enumerate(history, start=1):
            d_all.append(x - record["aggregate"])
            m = sum(0.1 * 0.9 ** (t - s) * d_all[s - 1] for s in range(1, t + 1))
            v = sum(0.01 * 0.99 ** (t - s) * d_all[s - 1] ** 2 for s in range(1, t + 1))
            if name == "adagrad":
                step = 0.1 * d_all[-1] / (np.sqrt(sum(d**2 for d in d_all)) + 1e-3)
            elif name == "keras":
                step = 0.01 * (np.sqrt(1 - 0.99**t) / (1 - 0.9**t)) * m / (np.sqrt(v) + 1e-3)
            elif name == "torch":
                step = 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-3)
            elif name == "none":
                step = 0.01 * m / (np.sqrt(v) + 1e-3)
            else:
                v = np.full(SIZE, 1e-6)
                for d in d_all:
                    v = np.where(d**2 > v, v + 0.01 * d**2, v - 0.01 * d**2)
                step = 0.01 * m / (np.sqrt(v) + 1e-3)
            x = x - step
            np.testing.assert_allclose(record["x"], x, atol=1e-13, err_msg=name)


def test_lars_and_lamb_move_every_layer_in_proportion_to_its_norm():
    for name, algorithm in [("lars", fedlars), ("lamb", fedlamb)]:
        record = run(algorithm, COHORTS[:1], eps=0.0)[0]
        for layer in PROBLEM.layers:
            move = np.linalg.norm(record["x"][layer] - START[layer])
            assert move == pytest.approx(0.01 * np.linalg.norm(START[layer])), name


def test_lars_and_lamb_use_a_ratio_of_one_for_a_layer_of_zeros():
    start = START.copy()
    start[4:6] = 0.0
    lars = fedlars(PROBLEM, start, COHORTS[:1], 3, LR)[0]
    np.testing.assert_allclose(lars["x"][4:6], -0.01 * lars["m"][4:6], atol=1e-15)
    lamb = fedlamb(PROBLEM, start, COHORTS[:1], 3, LR)[0]
    u = (lamb["m"] / 0.1) / (np.sqrt(lamb["v"] / 0.01) + 1e-3)
    np.testing.assert_allclose(lamb["x"][4:6], -0.01 * u[4:6], atol=1e-14)


@pytest.mark.parametrize("algorithm", [fedlars, fedlamb])
def test_lars_and_lamb_follow_their_equations_over_all_rounds(algorithm):
    x, m, v = START, np.zeros(SIZE), np.zeros(SIZE)
    for t, record in enumerate(run(algorithm, server_lr=0.1, eps=0.02), start=1):
        d = x - record["aggregate"]
        m = 0.9 * m + 0.1 * d
        v = 0.99 * v + 0.01 * d**2
        np.testing.assert_allclose(record["m"], m, atol=1e-13)
        parts = []
        for part in (range(4), range(4, 6)):
            if algorithm is fedlars:
                scale = np.sqrt(sum(x[j] ** 2 for j in part)) / (np.sqrt(sum(m[j] ** 2 for j in part)) + 0.02)
                parts.extend(scale * m[j] for j in part)
            else:
                u = [m[j] / (1 - 0.9**t) / (np.sqrt(v[j] / (1 - 0.99**t)) + 0.02) for j in part]
                scale = np.sqrt(sum(x[j] ** 2 for j in part)) / np.sqrt(sum(value**2 for value in u))
                parts.extend(scale * value for value in u)
        x = x - 0.1 * np.array(parts)
        np.testing.assert_allclose(record["x"], x, atol=1e-13)


def test_normalized_fedavg_always_moves_by_the_server_rate():
    x = START
    for record in run(normalized_fedavg, server_lr=0.3):
        assert np.linalg.norm(record["x"] - x) == pytest.approx(0.3)
        direction = record["aggregate"] - x
        np.testing.assert_allclose(record["x"] - x, 0.3 * direction / np.linalg.norm(direction), atol=1e-14)
        x = record["x"]


def test_normalized_fedavg_stays_where_the_pseudo_gradient_is_zero():
    zero = Problem([(np.eye(2), np.zeros(2))], [slice(0, 2)])
    assert (normalized_fedavg(zero, np.zeros(2), [[0]], 3, LR)[0]["x"] == 0).all()


# FedProx, SCAFFOLD, FedDyn, AdaBest


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


def test_adabest_knows_the_mean_size_of_all_participations_so_far():
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


# FedGBO and its rivals


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_inverse_of_fedgbo_is_the_mean_of_all_local_gradients(optimizer):
    beta, beta2, eps = 0.8, 0.95, 1e-3
    x, m, v = START, np.zeros(SIZE), np.ones(SIZE)
    for t, (cohort, record) in enumerate(
        zip(COHORTS, run(fedgbo, steps=UNEQUAL_STEPS, optimizer=optimizer, beta=beta, beta2=beta2), strict=True),
        start=1,
    ):
        gradients = []
        for i in cohort:
            y = x.copy()
            for _ in range(UNEQUAL_STEPS[t][i]):
                g = PROBLEM.gradient(i, y)
                gradients.append(g)
                if optimizer == "rmsprop":
                    y = y - LR * g / (np.sqrt(v) + eps)
                elif optimizer == "sgdm":
                    y = y - LR * (beta * m + (1 - beta) * g)
                else:
                    y = y - LR * (beta * m + (1 - beta) * g) / (np.sqrt(v) + eps)
        mean = np.mean(gradients, axis=0)
        np.testing.assert_allclose(record["inverse"], mean, atol=1e-11)
        decay = beta2 if optimizer == "adam" else beta
        m = beta * m + (1 - beta) * mean
        v = decay * v + (1 - decay) * mean**2
        np.testing.assert_allclose(record["m"], m, atol=1e-11)
        np.testing.assert_allclose(record["v"], v, atol=1e-11)
        x = record["x"]


@pytest.mark.parametrize("weighting", ["uniform", "examples"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_fedgbo_is_mimelite_at_one_full_batch_step(optimizer, weighting):
    hyper = {"steps": 1, "optimizer": optimizer, "weighting": weighting}
    assert_same(run(fedgbo, **hyper), run(mimelite, **hyper), keys=("x", "m", "v"))


@pytest.mark.parametrize("weighting", ["uniform", "examples"])
def test_fedgbo_with_momentum_is_fedcm(weighting):
    hyper = {"steps": UNEQUAL_STEPS, "lr": decaying, "weighting": weighting}
    assert_same(run(fedgbo, beta=0.7, **hyper), run(fedcm, alpha=1 - 0.7, **hyper), keys=("x", "aggregate", "m"))


def test_adaptive_fedopt_with_momentum_is_fedavgm_at_a_scaled_server_rate():
    optimised = run(adaptive_fedopt, steps=UNEQUAL_STEPS, beta=0.8, server_lr=1.5)
    assert_same(
        optimised,
        run(fedavgm, steps=UNEQUAL_STEPS, weighting="uniform", momentum=0.8, server_lr=1.5 * (1 - 0.8)),
    )


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_adaptive_fedopt_tracks_first_and_then_steps(optimizer):
    x, m, v = START, np.zeros(SIZE), np.ones(SIZE)
    for record in run(adaptive_fedopt, optimizer=optimizer, beta=0.8, beta2=0.95, server_lr=0.5, eps=0.01):
        d = x - record["aggregate"]
        m = 0.8 * m + 0.2 * d
        v = 0.8 * v + 0.2 * d**2 if optimizer == "rmsprop" else 0.95 * v + 0.05 * d**2
        x = x - 0.5 * (d if optimizer == "rmsprop" else m) / (np.sqrt(v) + 0.01)
        np.testing.assert_allclose(record["x"], x, atol=1e-13)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_mime_at_one_full_batch_step_is_the_centralised_optimiser(optimizer):
    x, m, v = START, np.zeros(SIZE), np.ones(SIZE)
    for record in run(mime, EVERYONE, steps=1, optimizer=optimizer, beta=0.8, beta2=0.95):
        g = np.mean([PROBLEM.gradient(i, x) for i in range(6)], axis=0)
        if optimizer == "rmsprop":
            d = g / (np.sqrt(v) + 1e-3)
        elif optimizer == "sgdm":
            d = 0.8 * m + 0.2 * g
        else:
            d = (0.8 * m + 0.2 * g) / (np.sqrt(v) + 1e-3)
        x = x - LR * d
        m = 0.8 * m + 0.2 * g
        v = 0.8 * v + 0.2 * g**2 if optimizer != "adam" else 0.95 * v + 0.05 * g**2
        np.testing.assert_allclose(record["x"], x, atol=1e-13)
        np.testing.assert_allclose(record["m"], m, atol=1e-13)
        np.testing.assert_allclose(record["v"], v, atol=1e-13)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_mime_is_mimelite_when_a_single_client_takes_part(optimizer):
    alone = [[1], [4], [1], [0]]
    assert_same(run(mime, alone, optimizer=optimizer), run(mimelite, alone, optimizer=optimizer), keys=("x", "m", "v"))
    assert_different(run(mime, optimizer=optimizer), run(mimelite, optimizer=optimizer))


def test_mfl_with_momentum_is_mimelite_at_one_full_batch_step():
    hyper = {"steps": 1, "weighting": "examples"}
    assert_same(run(mfl, **hyper), run(mimelite, **hyper), keys=("x", "m"))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_mfl_with_one_client_is_the_centralised_optimiser_that_tracks_first(optimizer):
    x, m, v = START, np.zeros(SIZE), np.ones(SIZE)
    for record in run(mfl, [[1]] * 4, optimizer=optimizer, beta=0.8, beta2=0.95):
        for _ in range(3):
            g = PROBLEM.gradient(1, x)
            m = 0.8 * m + 0.2 * g
            v = 0.8 * v + 0.2 * g**2 if optimizer != "adam" else 0.95 * v + 0.05 * g**2
            if optimizer == "rmsprop":
                x = x - LR * g / (np.sqrt(v) + 1e-3)
            elif optimizer == "sgdm":
                x = x - LR * m
            else:
                x = x - LR * m / (np.sqrt(v) + 1e-3)
        np.testing.assert_allclose(record["x"], x, atol=1e-13)
        np.testing.assert_allclose(record["m"], m, atol=1e-13)
        np.testing.assert_allclose(record["v"], v, atol=1e-13)


# Momentum methods


@pytest.mark.parametrize("start", ["zero", "clamp"])
@pytest.mark.parametrize("weighting", ["uniform", "examples"])
def test_fedcm_is_ghbm_of_the_last_round(weighting, start):
    alpha, server_lr = 0.2, 0.8
    cm = run(fedcm, alpha=alpha, server_lr=server_lr, weighting=weighting)
    hyper = {"tau": 1, "beta": (1 - alpha) / server_lr, "server_lr": server_lr, "start": start, "weighting": weighting}
    assert_same(cm, run(ghbm, lr=alpha * LR, **hyper))
    assert_different(cm, run(fedavg, lr=alpha * LR, weighting=weighting))


def test_fedadc_with_equal_momenta_is_ghbm_of_the_last_round():
    adc = run(fedadc, steps=UNEQUAL_STEPS, beta_local=0.6, beta_global=0.6, server_lr=0.8)
    assert_same(adc, run(ghbm, steps=UNEQUAL_STEPS, tau=1, beta=0.6 / 0.8, server_lr=0.8))
    assert_different(adc, run(fedadc, steps=UNEQUAL_STEPS, beta_local=0.6, beta_global=0.8, server_lr=0.8))


def test_fedadc_without_local_momentum_is_fedavgm():
    adc = run(fedadc, steps=UNEQUAL_STEPS, beta_local=0.0, beta_global=0.8, server_lr=0.7)
    assert_same(adc, run(fedavgm, steps=UNEQUAL_STEPS, weighting="uniform", momentum=0.8, server_lr=0.7))


def test_ghbm_without_momentum_is_fedavg():
    plain = run(fedavg, steps=UNEQUAL_STEPS, weighting="uniform", server_lr=0.7)
    for algorithm in (ghbm, localghbm, fedhbm, server_ghbm):
        assert_same(run(algorithm, steps=UNEQUAL_STEPS, beta=0.0, server_lr=0.7), plain)


@pytest.mark.parametrize("start", ["zero", "clamp"])
@pytest.mark.parametrize("tau", [1, 2, 3, 5])
def test_the_heavy_ball_form_of_ghbm_agrees_with_the_telescoped_form(tau, start):
    beta, server_lr = 0.7, 0.9
    x = START
    moves = deque(maxlen=tau)
    history = run(ghbm, steps=UNEQUAL_STEPS, lr=decaying, beta=beta, tau=tau, server_lr=server_lr, start=start)
    for t, (cohort, record) in enumerate(zip(COHORTS, history, strict=True), start=1):
        momentum = sum(moves, np.zeros(SIZE)) / tau
        if start == "zero" and len(moves) < tau:
            momentum = np.zeros(SIZE)
        models = []
        for i in cohort:
            y = x.copy()
            for _ in range(UNEQUAL_STEPS[t][i]):
                y = y - decaying(t) * PROBLEM.gradient(i, y) + beta / UNEQUAL_STEPS[t][i] * momentum
            models.append(y)
        new = x + server_lr * (np.mean(models, axis=0) - x)
        moves.append(new - x)
        x = new
        np.testing.assert_allclose(record["x"], x, atol=1e-12)


def test_the_two_starts_of_ghbm_differ_only_from_the_second_round_on():
    zero, clamp = run(ghbm, tau=3, start="zero"), run(ghbm, tau=3, start="clamp")
    assert_same(zero[:1], clamp[:1])
    assert_different(zero[1:2], clamp[1:2])


def test_localghbm_is_ghbm_under_cyclic_participation():
    cyclic = [[0, 3], [1, 4], [2, 5]] * 4
    local = run(localghbm, cyclic, beta=0.8, server_lr=0.9)
    assert_same(local, run(ghbm, cyclic, tau=3, beta=0.8, server_lr=0.9))
    assert_different(local, run(fedavg, cyclic, weighting="uniform", server_lr=0.9))


def test_fedhbm_pulls_every_step_away_from_the_last_own_model():
    beta = 0.6
    history = run(fedhbm, [[0, 1], [2], [1]], steps=2, beta=beta)
    first = START.copy()
    for _ in range(2):
        first = first - LR * PROBLEM.gradient(1, first)
    y = history[1]["x"]
    for _ in range(2):
        y = y - LR * PROBLEM.gradient(1, y) + beta / (2 * 2) * (y - first)
    np.testing.assert_allclose(history[2]["x"], y, atol=1e-13)


@pytest.mark.parametrize(("momentum", "optimiser"), [(mimemom, mime), (mimelitemom, mimelite)])
def test_the_ema_form_of_the_mime_methods_is_mime_with_momentum(momentum, optimiser):
    ema = run(momentum, steps=UNEQUAL_STEPS, lr=decaying, beta=0.8, form="ema")
    assert_same(ema, run(optimiser, steps=UNEQUAL_STEPS, lr=decaying, beta=0.8), keys=("x", "aggregate", "m"))


@pytest.mark.parametrize("momentum", [mimemom, mimelitemom])
def test_the_heavy_ball_form_is_the_ema_form_at_a_larger_rate(momentum):
    heavy = run(momentum, steps=UNEQUAL_STEPS, lr=0.2 * LR, beta=0.8, server_lr=0.9)
    assert_same(heavy, run(momentum, steps=UNEQUAL_STEPS, lr=LR, beta=0.8, server_lr=0.9, form="ema"))


def test_server_ghbm_of_the_last_round_is_fedavgm():
    server = run(server_ghbm, steps=UNEQUAL_STEPS, tau=1, beta=0.8, server_lr=0.7)
    assert_same(server, run(fedavgm, steps=UNEQUAL_STEPS, weighting="uniform", momentum=0.8, server_lr=0.7))


def test_server_ghbm_adds_the_mean_of_the_last_moves():
    moves = []
    x = START
    for record in run(server_ghbm, tau=3, beta=0.8, server_lr=0.7):
        new = x + 0.7 * (record["aggregate"] - x) + 0.8 / 3 * sum(moves[-3:], np.zeros(SIZE))
        np.testing.assert_allclose(record["x"], new, atol=1e-13)
        moves.append(new - x)
        x = new


@pytest.mark.parametrize(("weighting", "steps"), [("uniform", UNEQUAL_STEPS), ("examples", 3)])
def test_ghbm_theory_of_the_last_round_is_fedcm(weighting, steps):
    theory = run(ghbm_theory, steps=steps, tau=1, beta=0.3, weighting=weighting, lr=decaying)
    cm = run(fedcm, steps=steps, alpha=0.3, weighting=weighting, lr=decaying)
    assert_same(theory, cm, keys=("x", "aggregate", "m"))
    assert_different(theory, run(ghbm_theory, steps=steps, tau=2, beta=0.3, weighting=weighting, lr=decaying))


def test_ghbm_theory_at_one_step_averages_the_gradients_of_the_last_rounds():
    beta, tau = 0.3, 3
    x, m, means = START, np.zeros(SIZE), []
    for cohort, record in zip(COHORTS, run(ghbm_theory, steps=1, beta=beta, tau=tau), strict=True):
        means.append(np.mean([PROBLEM.gradient(i, x) for i in cohort], axis=0))
        m = (1 - beta) * m + beta * sum(means[-tau:]) / tau
        x = x - LR * m
        np.testing.assert_allclose(record["x"], x, atol=1e-13)


# Defaults


def test_the_defaults_are_those_of_the_specification():
    optimiser = {"optimizer": "sgdm", "beta": 0.9, "beta2": 0.99, "eps": 1e-3}
    adam = {"server_lr": 0.01, "beta1": 0.9, "beta2": 0.99, "eps": 1e-3}
    expected = {
        "fedavg": {"server_lr": 1.0},
        "fedsgd": {"server_lr": 1.0},
        "fedavgm": {"server_lr": 1.0, "momentum": 0.9},
        "fedadagrad": {"server_lr": 0.1, "eps": 1e-3},
        "fedadam": adam | {"bias_correction": "keras"},
        "fedyogi": adam,
        "fedlars": {"server_lr": 0.01, "momentum": 0.9, "eps": 1e-3},
        "fedlamb": adam,
        "normalized-fedavg": {"server_lr": 1.0},
        "fedprox": {"mu": 0.01, "server_lr": 1.0},
        "scaffold": {"server_lr": 1.0, "option": 2},
        "scaffold-slim": {"retention": "exact"},
        "feddyn": {"mu": 0.02},
        "adabest": {"mu": 0.02, "beta": 0.96, "size_adaptive": True},
        "fedgbo": optimiser,
        "mimelite": optimiser,
        "mime": optimiser,
        "mfl": optimiser,
        "adaptive-fedopt": {"server_lr": 1.0} | optimiser,
        "fedcm": {"alpha": 0.1, "server_lr": 1.0},
        "fedadc": {"beta_local": 0.9, "beta_global": 0.9, "server_lr": 1.0},
        "ghbm": {"beta": 0.9, "tau": 10, "server_lr": 1.0, "start": "zero"},
        "localghbm": {"beta": 0.9, "server_lr": 1.0},
        "fedhbm": {"beta": 1.0, "server_lr": 1.0},
        "mimemom": {"beta": 0.9, "server_lr": 1.0, "form": "heavy-ball"},
        "mimelitemom": {"beta": 0.9, "server_lr": 1.0, "form": "heavy-ball"},
        "scaffold-momentum": {"beta": 0.1, "server_lr": 1.0},
        "server-ghbm": {"beta": 0.9, "tau": 10, "server_lr": 1.0},
        "ghbm-theory": {"beta": 0.1, "tau": 10},
    }
    common = ["problem", "x0", "cohorts", "steps", "lr", "weighting", "clip"]
    assert set(expected) == set(REFERENCES)
    for name, reference in REFERENCES.items():
        parameters = inspect.signature(reference).parameters
        assert list(parameters)[:7] == common, name
        assert {key: parameters[key].default for key in list(parameters)[7:]} == expected[name], name
