"""Identities between the references of FedGBO, its rivals and the momentum methods.

A slip in one of them breaks an equation that must hold.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from .algorithms import (
    adaptive_fedopt,
    fedadc,
    fedavg,
    fedavgm,
    fedcm,
    fedgbo,
    fedhbm,
    ghbm,
    ghbm_theory,
    localghbm,
    mfl,
    mime,
    mimelite,
    mimelitemom,
    mimemom,
    server_ghbm,
)
from .runs import (
    COHORTS,
    EVERYONE,
    LR,
    OPTIMIZERS,
    PROBLEM,
    SIZE,
    START,
    UNEQUAL_STEPS,
    assert_different,
    assert_same,
    decaying,
    run,
)

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
