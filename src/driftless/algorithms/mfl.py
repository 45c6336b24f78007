"""MFL. Liu et al., IEEE TPDS 2020, arXiv:1910.03197."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from driftless.algorithm import Algorithm, Vector
from driftless.algorithms.optimizers import check_optimizer, optimizer_of
from driftless.algorithms.states import Biased, Statistics


class Upload(NamedTuple):
    delta: Vector
    statistics: Statistics


@dataclass(frozen=True)
class MFL(Algorithm):
    """Every client continues the server's optimiser through its local steps; models and statistics are averaged.

    A client's m and v start each round as the server's and are tracked with its own gradients, step by step, so they
    follow the present gradients more closely than fixed statistics, and drift as its model does.

    Paper: Liu, Chen, Chen, Zhang. Accelerating Federated Learning via Momentum Gradient Descent. IEEE TPDS 2020,
    arXiv:1910.03197; with RMSProp and Adam as in the FedGBO paper (Mills et al. 2022, arXiv:2108.09134; rule T).

    Equations:
        start: v = 1
        local step (optimizer=rmsprop): v <- beta*v + (1 - beta)*g**2
        local step (optimizer=sgdm): m <- beta*m + (1 - beta)*g
        local step (optimizer=adam): m <- beta*m + (1 - beta)*g
        local step (optimizer=adam): v <- beta2*v + (1 - beta2)*g**2
        local step (optimizer=rmsprop): d = g/(sqrt(v) + eps)
        local step (optimizer=sgdm): d = m
        local step (optimizer=adam): d = m/(sqrt(v) + eps)
        server: x <- mean(y)
        server: m <- mean(m)
        server: v <- mean(v)

    Hyper-parameters:
        optimizer: the rule of the local steps; "rmsprop", "sgdm" or "adam". In the FedGBO paper their best local
            learning rates differ by orders of magnitude: search anew for each.
        beta: the weight of the old statistics: of m, for RMSProp of v; from 0 to below 1. The FedGBO paper searched
            0.3, 0.6, 0.9, 0.99, 0.999 and 0.9999 and chose, with sgdm, 0.99 or 0.999 on CIFAR-100, 0.99 on Sent140, 0.9
            on FEMNIST and Shakespeare. The statistics average over about 1/(1 - beta) tracked gradients: too large,
            they are out of date; too small, they are noisy.
        beta2: the weight of the old v, for Adam only; from 0 to below 1. The FedGBO paper fixed 0.99.
        eps: is added to sqrt(v) and limits the step where v is small, for RMSProp and Adam; greater than 0. The FedGBO
            paper found a value as large as 0.001 necessary for stable convergence.

    Vectors: 2 down, 2 up, none kept by the client. 3 down and 3 up with Adam.

    Deviations: none. As for FedGBO, v starts at 1 and is tracked with squares.
    """

    optimizer: str = "sgdm"
    beta: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    name = "mfl"
    citation = "Liu et al., IEEE TPDS 2020, arXiv:1910.03197"
    weighting = "uniform"

    def __post_init__(self):
        check_optimizer(self)

    def init_server(self, x, facts):
        return Biased(x, optimizer_of(self).initial(x))

    def broadcast(self, server: Biased):
        return server

    def init_local(self, msg: Biased, client, r):
        return msg.statistics

    def direction(self, step, local: Statistics, msg: Biased, client, r):
        optimizer = optimizer_of(self)
        local = optimizer.track(local, step.g)
        return optimizer.use_tracked(step.g, local), local

    def upload(self, y, local: Statistics, msg: Biased, client, r):
        return Upload(y - msg.x, local), client

    def update(self, server: Biased, mean: Upload, r):
        return Biased(server.x + mean.delta, mean.statistics)
