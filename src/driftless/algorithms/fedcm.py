"""FedCM (Xu et al., 2021, arXiv:2106.10874) and FedADC (Ozfatura et al., ISIT 2021, arXiv:2012.09102)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from driftless.algorithm import Algorithm, Delta
from driftless.algorithms.checks import decay, fraction, positive
from driftless.algorithms.states import Momentum


@dataclass(frozen=True)
class FedCM(Algorithm):
    """Every local step mixes the client's gradient with the cohort's mean direction of the last round.

    m is the mean local step of the last round, over all its clients and steps; so it is an exponential average of the
    gradients of earlier rounds. It is the same for all clients of a round and pulls their models in one direction.

    Paper: Xu, Wang, Wang, Yao. FedCM: Federated Learning with Client-level Momentum. 2021, arXiv:2106.10874.

    Equations:
        local step: d = alpha*g + (1 - alpha)*m
        server: x_bar = mean(y)
        server: m <- (x - x_bar)/(lr*K_bar)
        server: x <- x - server_lr*lr*K_bar*m

    Hyper-parameters:
        alpha: the weight of the client's own gradient; 0 to 1. 1 is FedAvg; with 0 nothing ever moves, because m starts
            at zero. The GHBM paper tried 0.05, 0.1 and 0.5 and chose 0.1; our search on digits (examples/digits.toml)
            0.6 of 0.1, 0.3, 0.6. alpha also scales the gradient's step, lr*alpha: with a smaller alpha try a larger lr.
        server_lr: how far the server moves towards the mean of the client models; greater than 0. The GHBM paper tried
            1, 0.5 and 0.1 and chose 1 with a ResNet-20, 0.1 with a CNN and on Shakespeare. Too large, the loss swings
            or grows from round to round; too small, it falls slowly.

    Vectors: 2 down, 1 up, none kept by the client.

    Deviations: none.
    """

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
    """The server's momentum is added in K equal parts during the local steps, so that the clients move with it.

    A momentum that the server adds after the round knows nothing of the local steps; here each of them contains its
    part of it. With beta_local = beta_global all of it is applied by the clients; what is more in beta_global is
    applied by the server.

    Paper: Ozfatura, Ozfatura, Gunduz. FedADC: Accelerated Federated Learning with Drift Control. ISIT 2021,
    arXiv:2012.09102.

    Equations:
        local step: d = g + beta_local*m/K
        server: x_bar = mean(y)
        server: m <- (x - x_bar)/lr + (beta_global - beta_local)*m
        server: x <- x - server_lr*lr*m

    Hyper-parameters:
        beta_local: the momentum that the clients apply; from 0 to below 1. Start at 0.9, equal to beta_global; the GHBM
            paper gives no grid for it. With 0 and a constant lr it is FedAvgM.
        beta_global: the momentum in all; from 0 to below 1. The server applies beta_global - beta_local itself. A
            larger one needs a smaller learning rate, since a round tends to 1/(1 - beta_global) times the gradient's
            step.
        server_lr: the server's step size; greater than 0. Start at 1. Too large, the loss swings or grows from round to
            round; too small, it falls slowly.

    Vectors: 2 down, 1 up, none kept by the client.

    Deviations: none.
    """

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
