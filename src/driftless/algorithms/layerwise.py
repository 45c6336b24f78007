"""FedLARS, FedLamb and normalised FedAvg. Charles et al., NeurIPS 2021, arXiv:2106.07820."""

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
    """FedAvg with LARS on the server: each layer moves by a length in proportion to its own norm.

    l runs over the layers; a layer is one parameter tensor of the module. The trust ratio r[l] makes the length of a
    layer's step server_lr*norm(x[l]), whatever the size of the pseudo-gradient, which shrinks when cohorts grow. r[l]
    is 1 where norm(x[l]) or norm(m[l]) is 0.

    Paper: Charles, Garrett, Huo, Shmulyian, Smith. On Large-Cohort Training for Federated Learning. NeurIPS 2021,
    arXiv:2106.07820. LARS: You, Gitman, Ginsburg 2017, arXiv:1708.03888.

    Equations:
        local step: d = g
        server: D = -mean(delta)
        server: m <- momentum*m + (1 - momentum)*D
        server: r[l] = norm(x[l])/(norm(m[l]) + eps)
        server: x[l] <- x[l] - server_lr*r[l]*m[l]

    Hyper-parameters:
        server_lr: the length of a layer's step, as a part of the layer's norm; greater than 0. The large-cohort paper
            searched 0.001, 0.01, 0.1, 1 and 10 and chose 0.01, on EMNIST 0.001. In our repetition on Fashion-MNIST
            (large-cohort/tables-4-5), 0.1 collapsed. Too large, the loss swings or grows from round to round; too
            small, it falls slowly.
        momentum: the weight of the old m; from 0 to below 1. The large-cohort paper fixed 0.9.
        eps: is added to norm(m[l]) and shortens the step of a layer whose pseudo-gradient is small; greater than 0. The
            large-cohort paper fixed 0.001.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: the paper prints no formula for LARS; this is what the authors' public code ran.
    """

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
    """FedAvg with Lamb on the server: Adam whose step has, in each layer, a length in proportion to the layer's norm.

    l runs over the layers; a layer is one parameter tensor of the module. u is Adam's direction; the trust ratio r[l]
    makes the length of a layer's step server_lr*norm(x[l]). r[l] is 1 where norm(x[l]) or norm(u[l]) is 0.

    Paper: Charles, Garrett, Huo, Shmulyian, Smith. On Large-Cohort Training for Federated Learning. NeurIPS 2021,
    arXiv:2106.07820. Lamb: You et al., ICLR 2020, arXiv:1904.00962.

    Equations:
        local step: d = g
        server: D = -mean(delta)
        server: m <- beta1*m + (1 - beta1)*D
        server: v <- beta2*v + (1 - beta2)*D**2
        server: u = m/(1 - beta1**t)/(sqrt(v/(1 - beta2**t)) + eps)
        server: r[l] = norm(x[l])/norm(u[l])
        server: x[l] <- x[l] - server_lr*r[l]*u[l]

    Hyper-parameters:
        server_lr: the length of a layer's step, as a part of the layer's norm; greater than 0. The large-cohort paper
            searched 0.001, 0.01, 0.1, 1 and 10 and chose 0.01, on CIFAR-100 0.001. In our repetition on Fashion-MNIST
            (large-cohort/tables-4-5), 0.1 collapsed. Too large, the loss swings or grows from round to round; too
            small, it falls slowly.
        beta1: the weight of the old m; from 0 to below 1. The large-cohort paper fixed 0.9.
        beta2: the weight of the old v; from 0 to below 1. The large-cohort paper fixed 0.99.
        eps: is added to sqrt(v) and limits the step where v is small; greater than 0. The large-cohort paper fixed
            0.001. A smaller value lets coordinates with small pseudo-gradients move further.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: the paper prints no formula for Lamb; this is what the authors' public code ran.
    """

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
    """FedAvg whose server moves by the same length, server_lr, in every round.

    With larger cohorts the client updates cancel out, and their mean gets shorter. Dividing by its norm, over the whole
    vector, keeps its direction only. The server does not move where D is 0.

    Paper: Charles, Garrett, Huo, Shmulyian, Smith. On Large-Cohort Training for Federated Learning. NeurIPS 2021,
    arXiv:2106.07820: section 5.4.

    Equations:
        local step: d = g
        server: D = -mean(delta)
        server: x <- x - server_lr*D/norm(D)

    Hyper-parameters:
        server_lr: the length of the server's step; greater than 0. The large-cohort paper reused FedAvg's value, 1. The
            steps do not get shorter by themselves: too large, the loss stays at a distance from its minimum or grows;
            too small, it falls slowly.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: none.
    """

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
