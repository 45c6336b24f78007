"""FedGBO. Mills et al., IEEE Transactions on Computers 2022, arXiv:2108.09134."""

from __future__ import annotations

from dataclasses import dataclass

from driftless.algorithm import Algorithm, Delta
from driftless.algorithms.optimizers import check_optimizer, optimizer_of
from driftless.algorithms.states import Biased


@dataclass(frozen=True)
class FedGBO(Algorithm):
    """Clients use the server's optimiser statistics, which the server tracks from their averaged models.

    All clients are moved by the same statistics, m and v, fixed for the round, so they drift less. As these are fixed,
    the server can recover from the averaged models the gradient that moved them: G is exactly the mean of all local
    gradients. So clients upload no statistics.

    Paper: Mills, Hu, Min, Jin, Zheng, Wang. Accelerating Federated Learning with a Global Biased Optimiser. IEEE
    Transactions on Computers 2022, arXiv:2108.09134: Algorithm 1 and Table 1 (rules U, T, I).

    Equations:
        start: v = 1
        local step (optimizer=rmsprop): d = g/(sqrt(v) + eps)
        local step (optimizer=sgdm): d = beta*m + (1 - beta)*g
        local step (optimizer=adam): d = (beta*m + (1 - beta)*g)/(sqrt(v) + eps)
        server: x_bar = mean(y)
        server: d_bar = (x - x_bar)/(lr*K_bar)
        server (optimizer=rmsprop): G = d_bar*(sqrt(v) + eps)
        server (optimizer=sgdm): G = (d_bar - beta*m)/(1 - beta)
        server (optimizer=adam): G = (d_bar*(sqrt(v) + eps) - beta*m)/(1 - beta)
        server (optimizer=rmsprop): v <- beta*v + (1 - beta)*G**2
        server (optimizer=sgdm): m <- beta*m + (1 - beta)*G
        server (optimizer=adam): m <- beta*m + (1 - beta)*G
        server (optimizer=adam): v <- beta2*v + (1 - beta2)*G**2
        server: x <- x_bar

    Hyper-parameters:
        optimizer: the rule of the local steps; "rmsprop", "sgdm" or "adam". In the FedGBO paper their best local
            learning rates differ by orders of magnitude: search anew for each.
        beta: the weight of the old statistics: of m, for RMSProp of v; from 0 to below 1. The FedGBO paper searched
            0.3, 0.6, 0.9, 0.99, 0.999 and 0.9999 and chose, with sgdm, 0.9 or 0.99 on CIFAR-100, 0.99 on Sent140, 0.6
            on FEMNIST and 0.9 on Shakespeare; our search on digits (examples/digits.toml) 0.5 of 0.5, 0.8, 0.95. The
            statistics average over about 1/(1 - beta) tracked gradients: too large, they are out of date; too small,
            they are noisy.
        beta2: the weight of the old v, for Adam only; from 0 to below 1. The FedGBO paper fixed 0.99.
        eps: is added to sqrt(v) and limits the step where v is small, for RMSProp and Adam; greater than 0. The FedGBO
            paper found a value as large as 0.001 necessary for stable convergence.

    Vectors: 2 down, 1 up, none kept by the client. 3 down with Adam.

    Deviations: x_1 in the paper's SGDm inverse is read as x_t; the square that Table 1's tracking lacks is put back,
    without which v would become negative. v starts at 1, as in the authors' public code.
    """

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
