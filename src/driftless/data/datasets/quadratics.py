"""Quadratics f_i(x) = 1/2 (x - x_i*)^T A_i (x - x_i*), the problems of the theory, as full-batch linear regressions.

With X_i = sqrt(d) A_i^(1/2), d rows, and y_i = X_i x_i*, the loss 1/(2 d) |X_i x - y_i|^2 is f_i exactly, so that any
algorithm runs on them with a linear model without bias and batch_size=None. `linear_regression.optimum` is the
minimiser of their mean.
"""

from __future__ import annotations

import numpy as np
import torch

from driftless.data.federation import Federation
from driftless.data.memory import check_memory
from driftless.errors import check_range, check_whole
from driftless.random import stream


def load(
    clients: int = 10, dimension: int = 10, heterogeneity: float = 1.0, condition: float = 10.0, seed: int = 0
) -> Federation:
    """Every A_i has the condition number `condition` and a largest eigenvalue of at most 1.

    heterogeneity 0: all clients share the optimum and the curvature. Above 0, x_i* = x* + heterogeneity * N(0, I),
    A_i is turned by a random rotation of a size that grows with heterogeneity, and scaled down by a factor between 1
    and 1 + heterogeneity.
    """
    check_whole("clients", clients, 1)
    check_whole("dimension", dimension, 1)
    check_range("heterogeneity", heterogeneity, 0, 1000)
    check_range("condition", condition, 1, 1e12)  # beyond, the optimum is not accurate in double precision
    # at its largest: a rotation of each client, what it is computed from, and the rows
    check_memory(6 * 8 * clients * dimension**2, f"{clients} quadratics", "use fewer clients or a smaller dimension")
    rng = stream(seed, "quadratics")
    d = dimension
    basis = torch.linalg.qr(torch.from_numpy(rng.standard_normal((d, d)))).Q
    center = torch.from_numpy(rng.standard_normal(d))
    optima = center + heterogeneity * torch.from_numpy(rng.standard_normal((clients, d)))
    generator = torch.from_numpy(rng.standard_normal((clients, d, d))) / np.sqrt(d)
    turned = torch.linalg.matrix_exp(heterogeneity * (generator - generator.mT) / 2) @ basis  # [clients, d, d]
    scale = 1 / (1 + heterogeneity * torch.from_numpy(rng.random(clients)))
    eigenvalues = torch.logspace(0, -np.log10(condition), d, dtype=torch.float64) * scale[:, None]
    rows = np.sqrt(d) * (turned * eigenvalues.sqrt()[:, None, :]) @ turned.mT
    targets = (rows @ optima[:, :, None])[:, :, 0]
    offsets = np.arange(clients + 1) * d
    return Federation(rows.reshape(-1, d), targets.reshape(-1), offsets, name="quadratics")
