"""AdaptiveFedOpt: FedOpt with the FedGBO paper's optimisers on the server.

Reddi et al. Adaptive Federated Optimization. ICLR 2021, arXiv:2003.00295, as a baseline of the FedGBO paper
(arXiv:2108.09134; rule T: optimizers.py). The statistics are tracked first, with v starting at 1.

    D = -mean(delta);  (m, v) <- T(m, v, D)
    x <- x - server_lr * (m (sgdm) | D/(sqrt(v)+eps) (rmsprop) | m/(sqrt(v)+eps) (adam))

Vectors: 1 down, 1 up, none kept by the client.  Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from driftless.algorithm import Algorithm
from driftless.algorithms.checks import positive
from driftless.algorithms.fedgbo import Biased
from driftless.algorithms.fedopt import REDDI
from driftless.algorithms.optimizers import check, initial, step_with, track


@dataclass(frozen=True)
class AdaptiveFedOpt(Algorithm):
    """SGD on the clients, an adaptive optimiser on the server."""

    server_lr: float = 1.0
    optimizer: str = "sgdm"
    beta: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    citation: ClassVar[str] = REDDI
    weighting: ClassVar[str] = "uniform"

    def __post_init__(self):
        positive(self, "server_lr")
        check(self)

    def init_server(self, x, facts):
        return Biased(x, initial(self, x))

    def update(self, server, mean, r):
        D = -mean.delta
        statistics = track(self, server.statistics, D)
        return Biased(server.x - self.server_lr * step_with(self, D, statistics), statistics)
