"""GHBM as its authors analyse it. Zaccone et al., 2024, arXiv:2311.18578."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Vector
from driftless.algorithms.checks import count, fraction
from driftless.algorithms.states import GradientSum, Momentum


class Server(NamedTuple):
    x: Vector
    m: Vector
    gradients: tuple[Vector, ...]
    """The mean gradients of the last tau - 1 rounds, the oldest first; 0 for rounds before the first."""


class Upload(NamedTuple):
    delta: Vector
    g_sum: Vector


@dataclass(frozen=True)
class GHBMTheory(Algorithm):
    """GHBM in the form that its authors analyse: the momentum averages the gradients of the last tau rounds.

    G[s] is the mean over all local gradients of round s. Its average over tau rounds, in which with cyclic
    participation all clients take part, is a mean over all of them. Rounds before the first count as 0, and the sum is
    always divided by tau.

    Paper: Zaccone, Masone, Ciccone. Communication-Efficient Heterogeneous Federated Learning with Generalized
    Heavy-Ball Momentum. 2024, arXiv:2311.18578: Algorithm 3. Symbols of the paper: theta^{t-1} is x, theta_i is y, J is
    K.

    Equations:
        local step: d = (1 - beta)*m + beta*g
        server: G[t] = mean(sum_k(g))/K_bar
        server: m <- (1 - beta)*m + beta/tau*sum_s(G[s], t - tau + 1, t)
        server: x <- x - lr*K_bar*m

    Hyper-parameters:
        beta: the weight of the new gradients, one minus the beta of the paper's main text; 0 to 1. Start at 0.1, which
            is 0.9 there. With 0 nothing ever moves, as m starts at 0. beta also scales the gradient's step, lr*beta:
            with a smaller beta try a larger lr.
        tau: over how many rounds the gradients are averaged; a whole number, 1 or more. Start at N/M, the inverse of
            the share of clients in a round; the theory takes this value. Too large, the gradients are out of date. The
            server keeps tau - 1 gradients.

    Vectors: 2 down, 2 up, none kept by the client.

    Deviations: none. beta weighs the new gradient; it is one minus the main text's. Rounds before the first count as 0.
    """

    beta: float = 0.1
    tau: int = 10

    name = "ghbm-theory"
    citation = "Zaccone et al., 2024, arXiv:2311.18578"
    weighting = "uniform"

    def __post_init__(self):
        fraction(self, "beta")
        count(self, "tau")

    def init_server(self, x, facts):
        zero = torch.zeros_like(x)
        return Server(x, zero, (zero,) * (self.tau - 1))

    def broadcast(self, server: Server):
        return Momentum(server.x, server.m)

    def init_local(self, msg: Momentum, client, r):
        return GradientSum(torch.zeros_like(msg.x))

    def direction(self, step, local: GradientSum, msg: Momentum, client, r):
        return (1 - self.beta) * msg.m + self.beta * step.g, GradientSum(local.g_sum + step.g)

    def upload(self, y, local: GradientSum, msg: Momentum, client, r):
        return Upload(y - msg.x, local.g_sum), client

    def update(self, server: Server, mean: Upload, r):
        gradients = (*server.gradients, mean.g_sum / r.steps)
        m = (1 - self.beta) * server.m + self.beta / self.tau * torch.stack(gradients).sum(0)
        return Server(server.x - r.lr * r.steps * m, m, gradients[1:])
