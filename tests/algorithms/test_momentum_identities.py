"""The identities of the specification for FedGBO, its rivals and the momentum methods, in double precision to 1e-10.

Unless an identity says otherwise: unbalanced clients, cohorts of one to all clients, three local steps on minibatches,
a linear regression and a small neural network. Where the weighting is free, the regression weighs by examples and the
network uniformly.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from driftless import LocalTraining
from driftless.algorithms import (
    GHBM,
    AdaptiveFedOpt,
    FedADC,
    FedAvg,
    FedAvgM,
    FedCM,
    FedGBO,
    GHBMTheory,
    LocalGHBM,
    Mime,
    MimeLite,
    ServerGHBM,
)
from driftless.algorithms.optimizers import optimizer_of
from driftless.data.cohorts import Cyclic

from .problems import (
    COHORTS,
    FULL_BATCHES,
    LR,
    MINIBATCHES,
    SIZES,
    assert_close,
    assert_different,
    assert_same,
    on_both_problems,
    regression,
    run,
    with_both_weightings,
)

ONE_FULL_STEP = replace(FULL_BATCHES, steps=1)

with_every_optimizer = pytest.mark.parametrize("optimizer", ["rmsprop", "sgdm", "adam"])


# FedGBO and its rivals


class Witnessed(NamedTuple):
    x: torch.Tensor
    statistics: NamedTuple
    recovered: torch.Tensor
    witnessed: torch.Tensor


class GradientSum(NamedTuple):
    total: torch.Tensor


class WitnessedDelta(NamedTuple):
    delta: torch.Tensor
    total: torch.Tensor


@dataclass(frozen=True)
class WitnessedFedGBO(FedGBO):
    """FedGBO whose clients also report the sum of their local gradients; it plays no part in the update."""

    def init_server(self, x, facts):
        return Witnessed(*super().init_server(x, facts), torch.zeros_like(x), torch.zeros_like(x))

    def broadcast(self, server):
        return super().broadcast(super().init_server(server.x, None)._replace(statistics=server.statistics))

    def init_local(self, msg, client, r):
        return GradientSum(torch.zeros_like(msg.x))

    def direction(self, step, local, msg, client, r):
        return super().direction(step, (), msg, client, r)[0], GradientSum(local.total + step.g)

    def upload(self, y, local, msg, client, r):
        return WitnessedDelta(y - msg.x, local.total), client

    def update(self, server, mean, r):
        recovered = optimizer_of(self).invert(-mean.delta / (r.lr * r.steps), server.statistics)
        return Witnessed(*super().update(server, mean, r), recovered, mean.total / r.steps)


@with_both_weightings
@with_every_optimizer
def test_the_inverse_of_fedgbo_is_the_mean_of_all_local_gradients(problem, weighting, optimizer):
    beta, beta2 = 0.8, 0.9
    algorithm = WitnessedFedGBO(optimizer=optimizer, beta=beta, beta2=beta2)
    bench = problem()
    m, v = torch.zeros_like(bench.x0), torch.ones_like(bench.x0)
    for record in run(algorithm, bench, weighting=weighting):
        mean = record.server.witnessed
        assert_close(record.server.recovered, mean)
        m = beta * m + (1 - beta) * mean
        v = beta2 * v + (1 - beta2) * mean**2 if optimizer == "adam" else beta * v + (1 - beta) * mean**2
        if optimizer != "rmsprop":
            assert_close(record.server.statistics.m, m)
        if optimizer != "sgdm":
            assert_close(record.server.statistics.v, v)


@with_every_optimizer
def test_the_inverse_of_fedgbo_is_the_mean_over_all_steps_when_clients_take_different_numbers_of_steps(optimizer):
    local = LocalTraining(lr=LR, epochs=1, batch_size=3)
    algorithm = WitnessedFedGBO(optimizer=optimizer, beta=0.8, beta2=0.9)
    records = run(algorithm, regression(), local=local)
    assert all(float(record.server.witnessed.abs().max()) > 1e-3 for record in records)
    for record in records:
        assert_close(record.server.recovered, record.server.witnessed)


@with_every_optimizer
def test_the_local_gradients_of_fedgbo_computed_step_by_step_in_numpy_are_what_its_server_tracks(optimizer):
    """The same identity without any code of ours but FedGBO itself."""
    bench, beta, beta2, eps = regression(), 0.8, 0.9, 0.01
    x, m, v = bench.x0.numpy(), np.zeros(6), np.ones(6)
    records = run(FedGBO(optimizer=optimizer, beta=beta, beta2=beta2, eps=eps), bench, local=FULL_BATCHES)
    for record, cohort in zip(records, COHORTS, strict=True):
        gradients, models = [], []
        for i in cohort:
            inputs, targets = (part.numpy() for part in bench.federation.client(i))
            y = x.copy()
            for _ in range(FULL_BATCHES.steps):
                g = inputs.T @ (inputs @ y - targets) / len(targets)
                gradients.append(g)
                top = g if optimizer == "rmsprop" else beta * m + (1 - beta) * g
                y = y - LR * (top if optimizer == "sgdm" else top / (np.sqrt(v) + eps))
            models.append(y)
        x, G = np.mean(models, axis=0), np.mean(gradients, axis=0)
        m = beta * m + (1 - beta) * G
        v = beta2 * v + (1 - beta2) * G**2 if optimizer == "adam" else beta * v + (1 - beta) * G**2
        assert_close(record.x, x)
        if optimizer != "rmsprop":
            assert_close(record.server.statistics.m, m)
        if optimizer != "sgdm":
            assert_close(record.server.statistics.v, v)


@with_both_weightings
@with_every_optimizer
def test_fedgbo_is_mimelite_at_one_full_batch_step(problem, weighting, optimizer):
    bench, options = problem(), {"weighting": weighting}
    hyper = {"optimizer": optimizer, "beta": 0.8, "beta2": 0.9}
    once = {"local": ONE_FULL_STEP, **options}
    assert_same(run(FedGBO(**hyper), bench, **once), run(MimeLite(**hyper), bench, **once))
    options["cohort"] = COHORTS[:2]
    assert_different(run(FedGBO(**hyper), bench, **options), run(MimeLite(**hyper), bench, **options))


@with_both_weightings
def test_fedgbo_with_momentum_is_fedcm(problem, weighting):
    bench = problem()
    gbo = run(FedGBO(optimizer="sgdm", beta=0.7), bench, weighting=weighting)
    cm = run(FedCM(alpha=1 - 0.7), bench, weighting=weighting)
    assert_same(gbo, cm)
    for one, other in zip(gbo, cm, strict=True):
        assert_close(one.server.statistics.m, other.server.m)


@with_both_weightings
def test_adaptive_fedopt_with_momentum_is_fedavgm_with_a_smaller_server_lr(problem, weighting):
    bench = problem()
    adaptive = run(AdaptiveFedOpt(optimizer="sgdm", server_lr=1.5, beta=0.7), bench, weighting=weighting)
    assert_same(adaptive, run(FedAvgM(server_lr=1.5 * (1 - 0.7), momentum=0.7), bench, weighting=weighting))


@with_both_weightings
@with_every_optimizer
def test_mime_at_one_full_batch_step_is_the_centralised_optimiser(problem, weighting, optimizer):
    """One step of the optimiser with the statistics so far, on the gradient of the cohort, which they track then."""
    bench, beta, beta2, eps = problem(), 0.8, 0.9, 0.01
    mime = Mime(optimizer=optimizer, beta=beta, beta2=beta2, eps=eps)
    records = run(mime, bench, local=ONE_FULL_STEP, weighting=weighting)
    x, m, v = bench.x0, torch.zeros_like(bench.x0), torch.ones_like(bench.x0)
    for record, cohort in zip(records, COHORTS, strict=True):
        weights = torch.tensor([SIZES[i] if weighting == "examples" else 1 for i in cohort], dtype=torch.float64)
        gradients = torch.stack([bench.gradient(i, x) for i in cohort])
        c = (weights[:, None] * gradients).sum(0) / weights.sum()
        if optimizer == "rmsprop":
            x = x - LR * c / (v.sqrt() + eps)
            v = beta * v + (1 - beta) * c**2
        elif optimizer == "sgdm":
            m = beta * m + (1 - beta) * c
            x = x - LR * m
        else:
            m = beta * m + (1 - beta) * c
            x = x - LR * m / (v.sqrt() + eps)
            v = beta2 * v + (1 - beta2) * c**2
        assert_close(record.x, x)


# The momentum methods


@with_both_weightings
@pytest.mark.parametrize("start", ["zero", "clamp"])
def test_ghbm_without_beta_is_fedavg(problem, weighting, start):
    bench = problem()
    plain = run(FedAvg(server_lr=0.7), bench, weighting=weighting)
    assert_same(run(GHBM(beta=0.0, tau=3, server_lr=0.7, start=start), bench, weighting=weighting), plain)
    assert_different(run(GHBM(beta=0.8, tau=3, server_lr=0.7, start=start), bench, weighting=weighting), plain)


@with_both_weightings
@pytest.mark.parametrize("start", ["zero", "clamp"])
def test_fedcm_is_ghbm_of_the_last_round(problem, weighting, start):
    bench, alpha, server_lr = problem(), 0.3, 0.8
    cm = run(FedCM(alpha=alpha, server_lr=server_lr), bench, weighting=weighting)
    ghbm = GHBM(tau=1, beta=(1 - alpha) / server_lr, server_lr=server_lr, start=start)
    assert_same(run(ghbm, bench, weighting=weighting, local=replace(MINIBATCHES, lr=alpha * LR)), cm)


@with_both_weightings
def test_fedadc_with_equal_momenta_is_ghbm_of_the_last_round(problem, weighting):
    bench, server_lr = problem(), 0.8
    adc = run(FedADC(beta_local=0.6, beta_global=0.6, server_lr=server_lr), bench, weighting=weighting)
    assert_same(run(GHBM(tau=1, beta=0.6 / server_lr, server_lr=server_lr), bench, weighting=weighting), adc)
    assert_different(run(FedADC(beta_local=0.6, server_lr=server_lr), bench, weighting=weighting), adc)


@with_both_weightings
def test_the_analysed_ghbm_of_the_last_round_is_fedcm(problem, weighting):
    bench = problem()
    theory = run(GHBMTheory(tau=1, beta=0.3), bench, weighting=weighting)
    cm = run(FedCM(alpha=0.3), bench, weighting=weighting)
    assert_same(theory, cm)
    for one, other in zip(theory, cm, strict=True):
        assert_close(one.server.m, other.server.m)


@with_both_weightings
def test_server_ghbm_of_the_last_round_is_fedavgm(problem, weighting):
    bench = problem()
    server = run(ServerGHBM(tau=1, beta=0.7, server_lr=0.8), bench, weighting=weighting)
    assert_same(server, run(FedAvgM(momentum=0.7, server_lr=0.8), bench, weighting=weighting))


@on_both_problems
@pytest.mark.parametrize(("clients", "number", "period"), [(6, 2, 3), (7, 2, 4), (7, 7, 1)])
def test_localghbm_is_ghbm_under_cyclic_participation(problem, clients, number, period):
    """Whoever takes part got a model exactly `period` rounds ago, x^{t-period-1}, or never in the first cycle."""
    bench, cohort = problem(sizes=SIZES[:clients]), Cyclic(number)
    assert cohort.period(clients) == period
    options = {"cohort": cohort, "rounds": 3 * period + 2}
    local = run(LocalGHBM(beta=0.8, server_lr=0.7), bench, **options)
    assert_same(local, run(GHBM(beta=0.8, tau=period, server_lr=0.7), bench, **options))
    assert_different(local, run(FedAvg(server_lr=0.7), bench, weighting="uniform", **options))


@on_both_problems
@pytest.mark.parametrize("start", ["zero", "clamp"])
@pytest.mark.parametrize("tau", [1, 2, 5])
def test_the_heavy_ball_form_of_ghbm_is_its_telescoped_form(problem, tau, start):
    """Heavy ball: every local step adds beta/K times the mean of the last tau moves of the server.

    start="clamp": moves before the first round are zero. start="zero": no momentum before there are tau moves.
    """
    bench, beta, server_lr = problem(), 0.7, 0.9
    ghbm = GHBM(beta=beta, tau=tau, server_lr=server_lr, start=start)
    records = run(ghbm, bench, local=FULL_BATCHES)
    x, moves = bench.x0, deque([torch.zeros_like(bench.x0)] * tau, maxlen=tau)
    for record, cohort in zip(records, COHORTS, strict=True):
        momentum = sum(moves) / tau
        if start == "zero" and record.round <= tau:
            momentum = torch.zeros_like(x)
        models = []
        for i in cohort:
            y = x
            for _ in range(FULL_BATCHES.steps):
                y = y - LR * bench.gradient(i, y) + beta / FULL_BATCHES.steps * momentum
            models.append(y)
        move = server_lr * (sum(models) / len(models) - x)
        moves.append(move)
        x = x + move
        assert_close(record.x, x)
