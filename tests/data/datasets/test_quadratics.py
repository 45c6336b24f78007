from __future__ import annotations

import numpy as np
import pytest

from driftless.data import Federation, optimum
from driftless.data.datasets import quadratics


def curvature_and_optimum(federation: Federation, i: int) -> tuple[np.ndarray, np.ndarray]:
    inputs, targets = (values.numpy() for values in federation.client(i))
    return inputs.T @ inputs / len(inputs), np.linalg.solve(inputs, targets)


def test_quadratics_without_heterogeneity_share_optimum_and_curvature():
    federation = quadratics.load(clients=5, dimension=4, heterogeneity=0, condition=100)
    A, x = curvature_and_optimum(federation, 0)
    for i in range(1, 5):
        A_i, x_i = curvature_and_optimum(federation, i)
        np.testing.assert_allclose(A_i, A, atol=1e-14)
        np.testing.assert_allclose(x_i, x, atol=1e-12)
    np.testing.assert_allclose(optimum(federation).numpy(), x, atol=1e-12)


def test_the_clients_of_quadratics_differ_more_as_heterogeneity_grows():
    spreads = []
    for heterogeneity in (0.0, 0.1, 0.5, 2.0):
        federation = quadratics.load(clients=30, dimension=4, heterogeneity=heterogeneity)
        pairs = [curvature_and_optimum(federation, i) for i in range(30)]
        spreads.append([np.std([values[k] for values in pairs], axis=0).mean() for k in range(2)])
    assert (np.diff(spreads, axis=0) > 1e-3).all()


@pytest.mark.parametrize("heterogeneity", [0, 0.3, 5])
def test_every_quadratic_has_the_condition_number_asked_for(heterogeneity):
    federation = quadratics.load(clients=6, dimension=5, heterogeneity=heterogeneity, condition=50)
    for i in range(6):
        eigenvalues = np.linalg.eigvalsh(curvature_and_optimum(federation, i)[0])
        assert eigenvalues[-1] <= 1 + 1e-12
        assert eigenvalues[-1] / eigenvalues[0] == pytest.approx(50)


def test_half_the_mean_squared_error_is_the_quadratic():
    federation = quadratics.load(clients=3, dimension=4)
    point = np.array([1.0, -2.0, 0.5, 3.0])
    for i in range(3):
        inputs, targets = (values.numpy() for values in federation.client(i))
        A, x = curvature_and_optimum(federation, i)
        assert 0.5 * np.mean((inputs @ point - targets) ** 2) == pytest.approx(0.5 * (point - x) @ A @ (point - x))
