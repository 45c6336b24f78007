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

from driftless.algorithm import Algorithm, Delta
from driftless.algorithms.optimizers import check_optimizer, optimizer_of
from driftless.algorithms.states import Biased


@dataclass(frozen=True)
class FedGBO(Algorithm):
    """A global optimiser, biased by fixed statistics, on the clients."""

    optimizer: str = "sgdm"
    beta: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    name = "fedgbo"
    citation = "Mills et al., IEEE Trans. Computers 2022, arXiv:2108.09134"
    weighting = "uniform"

    def __post_init__(self):
        check_optimizer(self)

    def init_server(self, x, facts):
        return Biased(x, optimizer_of(self).initial(x))

    def broadcast(self, server: Biased):
        return server

    def direction(self, step, local, msg: Biased, client, r):
        return optimizer_of(self).use(step.g, msg.statistics), local

    def update(self, server: Biased, mean: Delta, r):
        optimizer = optimizer_of(self)
        G = optimizer.invert(-mean.delta / (r.lr * r.steps), server.statistics)
        return Biased(server.x + mean.delta, optimizer.track(server.statistics, G))
