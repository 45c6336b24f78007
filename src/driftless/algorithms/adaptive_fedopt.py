"""FedOpt with the optimisers of the FedGBO paper. Reddi et al., ICLR 2021, arXiv:2003.00295."""

from __future__ import annotations

from dataclasses import dataclass

from driftless.algorithm import Algorithm, Delta
from driftless.algorithms.checks import positive
from driftless.algorithms.fedopt import REDDI
from driftless.algorithms.optimizers import check_optimizer, optimizer_of
from driftless.algorithms.states import Biased


@dataclass(frozen=True)
class AdaptiveFedOpt(Algorithm):
    """FedOpt with the FedGBO paper's optimisers on the server: clients run SGD, the server an adaptive optimiser.

    The server treats D = -mean(delta) as a gradient. The statistics are tracked first, with v starting at 1. The
    clients send and receive as little as with FedAvg, but there is one more learning rate to tune.

    Paper: Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan. Adaptive Federated Optimization. ICLR 2021,
    arXiv:2003.00295. As a baseline of the FedGBO paper (Mills et al. 2022, arXiv:2108.09134; rule T).

    Equations:
        start: v = 1
        local step: d = g
        server: D = -mean(delta)
        server (optimizer=rmsprop): v <- beta*v + (1 - beta)*D**2
        server (optimizer=sgdm): m <- beta*m + (1 - beta)*D
        server (optimizer=adam): m <- beta*m + (1 - beta)*D
        server (optimizer=adam): v <- beta2*v + (1 - beta2)*D**2
        server (optimizer=rmsprop): x <- x - server_lr*D/(sqrt(v) + eps)
        server (optimizer=sgdm): x <- x - server_lr*m
        server (optimizer=adam): x <- x - server_lr*m/(sqrt(v) + eps)

    Hyper-parameters:
        server_lr: the server's step size; greater than 0. The FedGBO paper searched powers of ten from 0.00001 to 10
            and chose, with sgdm, 1 (Sent140: 10), with RMSProp 0.001 or 0.01, with Adam 0.01 (Sent140: 0.1 with both).
            Too large, the loss swings or grows from round to round; too small, it falls slowly.
        optimizer: the rule of the server; "rmsprop", "sgdm" or "adam". Their best server_lr differ by orders of
            magnitude: search anew for each.
        beta: the weight of the old statistics: of m, for RMSProp of v; from 0 to below 1. The FedGBO paper searched
            0.3, 0.6, 0.9, 0.99, 0.999 and 0.9999 and chose, with sgdm, 0.9 or 0.99, with RMSProp 0.6 or 0.9, with Adam
            0.6, 0.9 or 0.99. The statistics average over about 1/(1 - beta) tracked gradients: too large, they are out
            of date; too small, they are noisy.
        beta2: the weight of the old v, for Adam only; from 0 to below 1. The FedGBO paper fixed 0.99.
        eps: is added to sqrt(v) and limits the step where v is small, for RMSProp and Adam; greater than 0. The FedGBO
            paper found a value as large as 0.001 necessary for stable convergence.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: none. As for FedGBO, v starts at 1 and is tracked with squares.
    """

    server_lr: float = 1.0
    optimizer: str = "sgdm"
    beta: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    name = "adaptive-fedopt"
    citation = REDDI
    weighting = "uniform"

    def __post_init__(self):
        positive(self, "server_lr")
        check_optimizer(self)

    def init_server(self, x, facts):
        return Biased(x, optimizer_of(self).initial(x))

    def update(self, server: Biased, mean: Delta, r):
        optimizer, D = optimizer_of(self), -mean.delta
        statistics = optimizer.track(server.statistics, D)
        return Biased(server.x - self.server_lr * optimizer.use_tracked(D, statistics), statistics)
