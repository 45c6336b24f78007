"""FedGBO: clients use the server's optimiser statistics, fixed for the round; the server recovers from the averaged
models the gradient that moved them and tracks its statistics with it.

Mills, Hu, Min, Jin, Zheng, Wang. Accelerating Federated Learning with a Global Biased Optimiser. IEEE Transactions on
Computers 2022, arXiv:2108.09134: Algorithm 1 and Table 1 (rules U, T, I: optimizers.py).

    d = U(g)
    x' = x_bar;  G = I((x - x')/(lr*K_bar));  (m, v) <- T(m, v, G)

Vectors: 2 down (3 with Adam), 1 up, none kept by the client.
Deviations: x_1 in the paper's SGDm inverse is read as x_t; the square that Table 1's tracking lacks is put back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from driftless.algorithm import Algorithm, Vector
from driftless.algorithms.optimizers import Statistics, check, initial, invert, track, use

MILLS = "Mills et al., IEEE Trans. Computers 2022, arXiv:2108.09134"


class Biased(NamedTuple):
    """Server state and message."""

    x: Vector
    statistics: Statistics

    @property
    def m(self) -> Vector:
        return self.statistics.m

    @property
    def v(self) -> Vector:
        return self.statistics.v


@dataclass(frozen=True)
class FedGBO(Algorithm):
    """A global optimiser, biased by fixed statistics, on the clients."""

    optimizer: str = "sgdm"
    beta: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    citation: ClassVar[str] = MILLS
    weighting: ClassVar[str] = "uniform"

    def __post_init__(self):
        check(self)

    def init_server(self, x, facts):
        return Biased(x, initial(self, x))

    def broadcast(self, server):
        return server

    def direction(self, step, local, msg, client, r):
        return use(self, step.g, msg.statistics), local

    def update(self, server, mean, r):
        G = invert(self, -mean.delta / (r.lr * r.steps), server.statistics)
        return Biased(server.x + mean.delta, track(self, server.statistics, G))
