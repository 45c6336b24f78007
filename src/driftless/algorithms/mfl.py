"""MFL: every client continues the server's optimiser through its local steps; model and statistics are averaged.

Liu, Chen, Chen, Zhang. Accelerating Federated Learning via Momentum Gradient Descent. IEEE TPDS 2020,
arXiv:1910.03197; with RMSProp and Adam as in the FedGBO paper (arXiv:2108.09134; rule T: optimizers.py).

    each local step:  (m, v) <- T(m, v, g);  d = m (sgdm) | g/(sqrt(v)+eps) (rmsprop) | m/(sqrt(v)+eps) (adam)
    x, m, v <- the means of the clients'

Vectors: 2 down and 2 up (3 and 3 with Adam), none kept by the client.  Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from driftless.algorithm import Algorithm, Vector
from driftless.algorithms.fedgbo import Biased
from driftless.algorithms.optimizers import Statistics, check, initial, step_with, track


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

    citation: ClassVar[str] = "Liu et al., IEEE TPDS 2020, arXiv:1910.03197"
    weighting: ClassVar[str] = "uniform"

    def __post_init__(self):
        check(self)

    def init_server(self, x, facts):
        return Biased(x, initial(self, x))

    def broadcast(self, server):
        return server

    def init_local(self, msg, client, r):
        return msg.statistics

    def direction(self, step, local, msg, client, r):
        local = track(self, local, step.g)
        return step_with(self, step.g, local), local

    def upload(self, y, local, msg, client, r):
        return Upload(y - msg.x, local), client

    def update(self, server, mean, r):
        return Biased(server.x + mean.delta, mean.statistics)
