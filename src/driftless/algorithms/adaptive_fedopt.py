"""AdaptiveFedOpt: FedOpt with the FedGBO paper's optimisers on the server.

Reddi et al. Adaptive Federated Optimization. ICLR 2021, arXiv:2003.00295, as a baseline of the FedGBO paper
(arXiv:2108.09134; rule T: optimizers.py). The statistics are tracked first, with v starting at 1.

    D = -mean(delta);  (m, v) <- T(m, v, D)
    x <- x - server_lr * (m (sgdm) | D/(sqrt(v)+eps) (rmsprop) | m/(sqrt(v)+eps) (adam))

Vectors: 1 down, 1 up, none kept by the client.  Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from driftless.algorithm import Algorithm, Delta
from driftless.algorithms.checks import positive
from driftless.algorithms.fedopt import REDDI
from driftless.algorithms.optimizers import check_optimizer, optimizer_of
from driftless.algorithms.states import Biased


@dataclass(frozen=True)
class AdaptiveFedOpt(Algorithm):
    """SGD on the clients, an adaptive optimiser on the server."""

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
