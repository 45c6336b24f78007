"""SCAFFOLD-M. Cheng et al., ICLR 2024, arXiv:2306.16504."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Vector
from driftless.algorithms.checks import fraction, positive
from driftless.algorithms.states import Control, ControlledDelta, GradientSum


class Server(NamedTuple):
    """Server state and message."""

    x: Vector
    c: Vector
    v: Vector


@dataclass(frozen=True)
class ScaffoldMomentum(Algorithm):
    """SCAFFOLD-M: SCAFFOLD's corrected gradient under client-level momentum.

    Every local step mixes SCAFFOLD's direction, g - c_i + c, with v, the mean local step of the last round. c_i
    estimates the gradient of client i, c the mean of all N of them; c_i is the mean of the client's minibatch gradients
    when it last took part.

    Paper: Cheng, Huang, Wu, Yuan. Momentum Benefits Non-IID Federated Learning Simply and Provably. ICLR 2024,
    arXiv:2306.16504.

    Equations:
        local step: d = beta*(g - c_i + c) + (1 - beta)*v
        client: c_i_new = sum_k(g)/K
        client: delta_c = c_i_new - c_i
        client: c_i <- c_i_new
        server: x_bar = mean(y)
        server: v <- (x - x_bar)/(lr*K_bar)
        server: x <- x - server_lr*lr*K_bar*v
        server: c <- c + M/N*mean(delta_c)

    Hyper-parameters:
        beta: the weight of the NEW corrected gradient; 0 to 1. 1 is SCAFFOLD; with 0 nothing ever moves, because v
            starts at zero. Start at 0.1, which gives the gradient the weight of FedCM's best alpha in the GHBM paper.
            beta also scales the gradient's step, lr*beta: with a smaller beta try a larger lr.
        server_lr: how far the server moves towards the mean of the client models; greater than 0. Start at 1. Too
            large, the loss swings or grows from round to round; too small, it falls slowly.

    Vectors: 3 down, 2 up, 1 kept by the client.

    Deviations: none.
    """

    beta: float = 0.1
    server_lr: float = 1.0

    name = "scaffold-momentum"
    citation = "Cheng et al., ICLR 2024, arXiv:2306.16504"
    weighting = "uniform"
    uniform = frozenset({"delta_c"})

    def __post_init__(self):
        fraction(self, "beta")
        positive(self, "server_lr")

    def init_server(self, x, facts):
        return Server(x, torch.zeros_like(x), torch.zeros_like(x))

    def init_client(self, x):
        return Control(torch.zeros_like(x))

    def broadcast(self, server: Server):
        return server

    def init_local(self, msg: Server, client: Control, r):
        return GradientSum(torch.zeros_like(msg.x))

    def direction(self, step, local: GradientSum, msg: Server, client: Control, r):
        d = self.beta * (step.g - client.c + msg.c) + (1 - self.beta) * msg.v
        return d, GradientSum(local.g_sum + step.g)

    def upload(self, y, local: GradientSum, msg: Server, client: Control, r):
        c = local.g_sum / r.steps
        return ControlledDelta(y - msg.x, c - client.c), Control(c)

    def update(self, server: Server, mean: ControlledDelta, r):
        v = -mean.delta / (r.lr * r.steps)
        c = server.c + r.cohort / r.clients * mean.delta_c
        return Server(server.x + self.server_lr * mean.delta, c, v)
