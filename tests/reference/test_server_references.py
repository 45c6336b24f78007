"""What holds for every reference, and identities between those of the FedOpt family."""

from __future__ import annotations

import inspect
from itertools import pairwise

import numpy as np
import pytest

from .algorithms import (
    REFERENCES,
    Problem,
    adabest,
    fedadagrad,
    fedadam,
    fedavg,
    fedavgm,
    feddyn,
    fedlamb,
    fedlars,
    fedsgd,
    fedyogi,
    normalized_fedavg,
    scaffold,
    scaffold_momentum,
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
        "scaffold": {"server_lr": 1.0, "option": 2, "size_adaptive": False},
        "scaffold-slim": {"retention": "exact"},
        "feddyn": {"mu": 0.02, "size_adaptive": False},
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
