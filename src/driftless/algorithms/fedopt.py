"""FedOpt: the server treats D = -mean(delta) as a gradient and feeds it to an adaptive optimiser.

Hsu, Qi, Brown. Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification. 2019,
arXiv:1909.06335 (FedAvgM). Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan. Adaptive Federated
Optimization. ICLR 2021, arXiv:2003.00295 (FedAdagrad, FedAdam, FedYogi). As run in Charles et al. 2021 (large-cohort
paper, arXiv:2106.07820), whose authors' public code corrects Adam's bias as Keras does.

    m <- momentum*m + D                      x <- x - server_lr * m                     FedAvgM
    v <- v + D^2                             x <- x - server_lr * D/(sqrt(v) + eps)     FedAdagrad
    m <- beta1*m + (1-beta1)*D,  v <- beta2*v + (1-beta2)*D^2                           FedAdam
    m as Adam,  v <- v - (1-beta2)*D^2*sign(v - D^2),  v0 = 1e-6                        FedYogi

Vectors: 1 down, 1 up, none kept by the client.  Deviations: none; FedAdam offers three bias corrections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Delta, Scalar, Vector
from driftless.algorithms.checks import choice, decay, positive
from driftless.algorithms.states import Moments, Momentum

REDDI = "Reddi et al., ICLR 2021, arXiv:2003.00295"


class Server(NamedTuple):
    """Of FedAdagrad."""

    x: Vector
    v: Vector


@dataclass(frozen=True)
class FedAvgM(Algorithm):
    """Heavy-ball momentum on the server."""

    server_lr: float = 1.0
    momentum: float = 0.9

    name = "fedavgm"
    citation = "Hsu et al., 2019, arXiv:1909.06335"

    def __post_init__(self):
        positive(self, "server_lr")
        decay(self, "momentum")

    def init_server(self, x, facts):
        return Momentum(x, torch.zeros_like(x))

    def update(self, server: Momentum, mean: Delta, r):
        m = self.momentum * server.m - mean.delta
        return Momentum(server.x - self.server_lr * m, m)


@dataclass(frozen=True)
class FedAdagrad(Algorithm):
    """Adagrad on the server."""

    server_lr: float = 0.1
    eps: float = 1e-3

    name = "fedadagrad"
    citation = REDDI

    def __post_init__(self):
        positive(self, "server_lr", "eps")

    def init_server(self, x, facts):
        return Server(x, torch.zeros_like(x))

    def update(self, server: Server, mean: Delta, r):
        D = -mean.delta
        v = server.v + D**2
        return Server(server.x - self.server_lr * D / (v.sqrt() + self.eps), v)


@dataclass(frozen=True)
class FedAdam(Algorithm):
    """Adam on the server."""

    server_lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3
    bias_correction: str = "keras"

    name = "fedadam"
    citation = REDDI

    def __post_init__(self):
        positive(self, "server_lr", "eps")
        decay(self, "beta1", "beta2")
        choice(self, "bias_correction", "keras", "torch", "none")

    def init_server(self, x, facts):
        return Moments(x, torch.zeros_like(x), torch.zeros_like(x))

    def update(self, server: Moments, mean: Delta, r):
        m, v = adam_moments(server, -mean.delta, self.beta1, self.beta2)
        b1, b2 = 1 - self.beta1**r.t, 1 - self.beta2**r.t
        if self.bias_correction == "keras":
            u = b2.sqrt() / b1 * m / (v.sqrt() + self.eps)
        elif self.bias_correction == "torch":
            u = (m / b1) / ((v / b2).sqrt() + self.eps)
        else:
            u = m / (v.sqrt() + self.eps)
        return Moments(server.x - self.server_lr * u, m, v)


@dataclass(frozen=True)
class FedYogi(Algorithm):
    """Yogi on the server: the second moment moves by at most (1-beta2)*D^2."""

    server_lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    name = "fedyogi"
    citation = REDDI

    def __post_init__(self):
        positive(self, "server_lr", "eps")
        decay(self, "beta1", "beta2")

    def init_server(self, x, facts):
        return Moments(x, torch.zeros_like(x), torch.full_like(x, 1e-6))

    def update(self, server: Moments, mean: Delta, r):
        D = -mean.delta
        m = self.beta1 * server.m + (1 - self.beta1) * D
        v = server.v - (1 - self.beta2) * D**2 * torch.sign(server.v - D**2)
        return Moments(server.x - self.server_lr * m / (v.sqrt() + self.eps), m, v)


def adam_moments(server: Moments, D: Vector, beta1: float | Scalar, beta2: float | Scalar) -> tuple[Vector, Vector]:
    m = beta1 * server.m + (1 - beta1) * D
    v = beta2 * server.v + (1 - beta2) * D**2
    return m, v
