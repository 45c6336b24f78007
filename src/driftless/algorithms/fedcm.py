"""FedCM and FedADC: the server's momentum enters every local step.

Xu, Wang, Wang, Yao. FedCM: Federated Learning with Client-level Momentum. 2021, arXiv:2106.10874.
Ozfatura, Ozfatura, Gunduz. FedADC: Accelerated Federated Learning with Drift Control. ISIT 2021, arXiv:2012.09102.

    FedCM    d = alpha*g + (1-alpha)*m
             m <- (x - x_bar)/(lr*K_bar);  x <- x - server_lr*lr*K_bar*m
    FedADC   d = g + beta_local*m/K
             m <- (x - x_bar)/lr + (beta_global - beta_local)*m;  x <- x - server_lr*lr*m

Vectors: 2 down, 1 up, none kept by the client.  Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from driftless.algorithm import Algorithm, Delta
from driftless.algorithms.checks import decay, fraction, positive
from driftless.algorithms.states import Momentum


@dataclass(frozen=True)
class FedCM(Algorithm):
    """Client-level momentum."""

    alpha: float = 0.1
    server_lr: float = 1.0

    name = "fedcm"
    citation = "Xu et al., 2021, arXiv:2106.10874"
    weighting = "uniform"

    def __post_init__(self):
        fraction(self, "alpha")
        positive(self, "server_lr")

    def init_server(self, x, facts):
        return Momentum(x, torch.zeros_like(x))

    def broadcast(self, server: Momentum):
        return server

    def direction(self, step, local, msg: Momentum, client, r):
        return self.alpha * step.g + (1 - self.alpha) * msg.m, local

    def update(self, server: Momentum, mean: Delta, r):
        m = -mean.delta / (r.lr * r.steps)
        return Momentum(server.x + self.server_lr * mean.delta, m)


@dataclass(frozen=True)
class FedADC(Algorithm):
    """Server momentum embedded in the local steps."""

    beta_local: float = 0.9
    beta_global: float = 0.9
    server_lr: float = 1.0

    name = "fedadc"
    citation = "Ozfatura et al., ISIT 2021, arXiv:2012.09102"
    weighting = "uniform"

    def __post_init__(self):
        decay(self, "beta_local", "beta_global")
        positive(self, "server_lr")

    def init_server(self, x, facts):
        return Momentum(x, torch.zeros_like(x))

    def broadcast(self, server: Momentum):
        return server

    def direction(self, step, local, msg: Momentum, client, r):
        return step.g + self.beta_local / r.steps * msg.m, local

    def update(self, server: Momentum, mean: Delta, r):
        m = -mean.delta / r.lr + (self.beta_global - self.beta_local) * server.m
        return Momentum(server.x - self.server_lr * r.lr * m, m)
