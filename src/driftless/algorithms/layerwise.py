"""FedLARS, FedLamb and normalised FedAvg: the length of the server's step is set apart from the pseudo-gradient's.

Charles, Garrett, Huo, Shmulyian, Smith. On Large-Cohort Training for Federated Learning. NeurIPS 2021,
arXiv:2106.07820. LARS: You, Gitman, Ginsburg 2017, arXiv:1708.03888. Lamb: You et al., ICLR 2020, arXiv:1904.00962.

    FedLARS   m <- momentum*m + (1-momentum)*D;  per layer l:  x_l <- x_l - server_lr * norm(x_l)/(norm(m_l)+eps) * m_l
    FedLamb   u = m_hat/(sqrt(v_hat)+eps);       per layer l:  x_l <- x_l - server_lr * norm(x_l)/norm(u_l) * u_l
    normalised FedAvg                            x <- x - server_lr * D/norm(D), the norm over the whole vector

A layer is one parameter tensor of the module; the trust ratio is 1 where either of its norms is 0.

Vectors: 1 down, 1 up, none kept by the client.  Deviations: the paper prints no formulas for LARS and Lamb; these are
what the authors' public code ran.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from driftless.algorithm import Algorithm, Delta, Model, Vector
from driftless.algorithms.checks import decay, positive
from driftless.algorithms.fedopt import adam_moments
from driftless.algorithms.states import Moments, Momentum

CHARLES = "Charles et al., NeurIPS 2021, arXiv:2106.07820"


@dataclass(frozen=True)
class FedLars(Algorithm):
    """Server momentum, its step scaled to each layer's norm."""

    server_lr: float = 0.01
    momentum: float = 0.9
    eps: float = 1e-3

    name = "fedlars"
    citation = f"{CHARLES}; LARS: You et al., 2017, arXiv:1708.03888"

    def __post_init__(self):
        positive(self, "server_lr", "eps")
        decay(self, "momentum")

    def init_server(self, x, facts):
        return Momentum(x, torch.zeros_like(x))

    def update(self, server: Momentum, mean: Delta, r):
        m = self.momentum * server.m - (1 - self.momentum) * mean.delta
        return Momentum(server.x - self.server_lr * trusted(server.x, m, r.layers, self.eps), m)


@dataclass(frozen=True)
class FedLamb(Algorithm):
    """Adam on the server, its step scaled to each layer's norm."""

    server_lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    name = "fedlamb"
    citation = f"{CHARLES}; Lamb: You et al., ICLR 2020, arXiv:1904.00962"

    def __post_init__(self):
        positive(self, "server_lr", "eps")
        decay(self, "beta1", "beta2")

    def init_server(self, x, facts):
        return Moments(x, torch.zeros_like(x), torch.zeros_like(x))

    def update(self, server: Moments, mean: Delta, r):
        m, v = adam_moments(server, -mean.delta, self.beta1, self.beta2)
        m_hat, v_hat = m / (1 - self.beta1**r.t), v / (1 - self.beta2**r.t)
        u = m_hat / (v_hat.sqrt() + self.eps)
        return Moments(server.x - self.server_lr * trusted(server.x, u, r.layers, 0.0), m, v)


@dataclass(frozen=True)
class NormalizedFedAvg(Algorithm):
    """Every round moves by the same length, server_lr."""

    server_lr: float = 1.0

    name = "normalized-fedavg"
    citation = CHARLES

    def __post_init__(self):
        positive(self, "server_lr")

    def update(self, server: Model, mean: Delta, r):
        length = mean.delta.norm()
        return Model(server.x + self.server_lr * mean.delta / torch.where(length > 0, length, 1.0))


def trusted(x: Vector, u: Vector, layers: tuple[slice, ...], eps: float) -> Vector:
    """u with each layer scaled by the trust ratio norm(x_l)/(norm(u_l) + eps)."""
    parts: list[Vector] = []
    for layer in layers:
        norm_x, norm_u = x[layer].norm(), u[layer].norm()
        both = (norm_x > 0) & (norm_u > 0)
        parts.append(torch.where(both, norm_x / torch.where(both, norm_u + eps, 1.0), 1.0) * u[layer])
    return torch.cat(parts)
