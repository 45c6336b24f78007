"""Quadratics, where the answer is known: who reaches the optimum, and where FedAvg stops instead.

Client i has f_i(x) = 1/2 (x - x_i*)^T A_i (x - x_i*); `optimum` minimises their mean.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from driftless import LocalTraining, load
from driftless.algorithms import FedAvg, FedDyn, FedSGD, Scaffold
from driftless.data import Constant, optimum

from .problems import Bench, Dot, assert_close, regression, run

CLIENTS, DIMENSION = 6, 4
EVERYONE = list(range(CLIENTS))
LOCAL = LocalTraining(lr=0.6, steps=5, batch_size=None)


def quadratics(heterogeneity: float) -> Bench:
    federation = load(
        "quadratics", clients=CLIENTS, dimension=DIMENSION, heterogeneity=heterogeneity, condition=5.0, seed=2
    )
    return Bench(federation, Dot(np.zeros(DIMENSION)))


def last(algorithm, bench: Bench, rounds: int, cohort=CLIENTS, local=LOCAL):
    """The last record of a run."""
    return run(algorithm, bench, rounds=rounds, cohort=Constant(cohort), local=local)[-1]


def curvature_and_optimum(bench: Bench, i: int) -> tuple[np.ndarray, np.ndarray]:
    """A_i and x_i*, from the client's data by the normal equations."""
    inputs, targets = (part.numpy() for part in bench.federation.client(i))
    A = inputs.T @ inputs / len(targets)
    return A, np.linalg.solve(A, inputs.T @ targets / len(targets))


def distance(x, y) -> float:
    return float((torch.as_tensor(x) - torch.as_tensor(y)).norm())


def test_the_optimum_of_the_quadratics_is_where_the_mean_gradient_is_zero():
    bench = quadratics(1.0)
    parts = [curvature_and_optimum(bench, i) for i in EVERYONE]
    exact = np.linalg.solve(sum(A for A, _ in parts), sum(A @ x for A, x in parts))
    assert_close(optimum(bench.federation), exact)
    assert min(distance(exact, x) for _, x in parts) > 0.5, "the clients must disagree"


@pytest.mark.parametrize("engine", ["single", "block"])
def test_fedavg_stops_at_its_biased_fixed_point(engine):
    """The solution of mean_i [I - (I - lr A_i)^K] (x_i* - x) = 0."""
    bench = quadratics(1.0)
    pulls, targets = np.zeros((DIMENSION, DIMENSION)), np.zeros(DIMENSION)
    for i in EVERYONE:
        A, x = curvature_and_optimum(bench, i)
        pull = np.eye(DIMENSION) - np.linalg.matrix_power(np.eye(DIMENSION) - LOCAL.lr * A, LOCAL.steps)
        pulls, targets = pulls + pull, targets + pull @ x
    biased = np.linalg.solve(pulls, targets)
    reached = run(FedAvg(), bench, cohort=[EVERYONE] * 60, local=LOCAL, weighting="uniform", engine=engine)[-1]
    assert_close(reached.x, biased)
    assert distance(biased, optimum(bench.federation)) > 0.01


def test_without_heterogeneity_fedavg_reaches_the_optimum():
    bench = quadratics(0.0)
    assert_close(last(FedAvg(), bench, 80, cohort=2).x, optimum(bench.federation))


def test_scaffold_reaches_the_optimum_with_partial_participation():
    bench = quadratics(1.0)
    best = optimum(bench.federation)
    assert distance(last(Scaffold(), bench, 200, cohort=2).x, best) < 1e-10
    assert distance(last(FedAvg(), bench, 100, cohort=2).x, best) > 0.01


def test_scaffold_with_one_local_step_and_everyone_is_gradient_descent():
    bench = quadratics(1.0)
    x = bench.x0
    local = LocalTraining(lr=LOCAL.lr, steps=1, batch_size=None)
    for record in run(Scaffold(), bench, cohort=[EVERYONE] * 20, local=local):
        x = x - LOCAL.lr * sum(bench.gradient(i, x) for i in EVERYONE) / CLIENTS
        assert_close(record.x, x)


def test_feddyn_reaches_the_optimum_with_everyone():
    bench = quadratics(1.0)
    record = last(FedDyn(mu=0.5), bench, 100)
    assert distance(record.aggregate, optimum(bench.federation)) < 1e-10
    assert distance(record.x, optimum(bench.federation)) < 1e-10


def test_fedsgd_is_gradient_descent_on_the_mean_over_all_examples():
    bench = regression()
    inputs, targets = bench.federation.inputs, bench.federation.targets
    x = bench.x0
    everyone = list(range(bench.federation.clients))
    for record in run(
        FedSGD(server_lr=0.3), bench, cohort=[everyone] * 12, local=LocalTraining(lr=1.0, steps=1, batch_size=None)
    ):
        x = x - 0.3 * inputs.T @ (inputs @ x - targets) / len(targets)
        assert_close(record.x, x)


def test_fedsgd_reaches_the_optimum_of_the_mean_over_all_examples():
    bench = regression()
    everyone = list(range(bench.federation.clients))
    reached = run(
        FedSGD(server_lr=0.6), bench, cohort=[everyone] * 150, local=LocalTraining(lr=1.0, steps=1, batch_size=None)
    )[-1]
    assert_close(reached.x, optimum(bench.federation, weighting="examples"), 1e-8)
    assert distance(reached.x, optimum(bench.federation, weighting="uniform")) > 0.01
