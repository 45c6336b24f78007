"""MFL: every client continues the server's optimiser through its local steps; model and statistics are averaged.

Liu, Chen, Chen, Zhang. Accelerating Federated Learning via Momentum Gradient Descent. IEEE TPDS 2020,
arXiv:1910.03197; with RMSProp and Adam as in the FedGBO paper (arXiv:2108.09134; rule T: optimizers.py).

    each local step:  (m, v) <- T(m, v, g);  d = m (sgdm) | g/(sqrt(v)+eps) (rmsprop) | m/(sqrt(v)+eps) (adam)
    x, m, v <- the means of the clients'

Vectors: 2 down and 2 up (3 and 3 with Adam), none kept by the client.  Deviations: none.
"""

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
    """Local optimisers that start from, and return to, common statistics."""

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
