"""FedProx: a proximal term ties the local iterate to the server model.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith. Federated Optimization in Heterogeneous Networks. MLSys 2020,
arXiv:1812.06127.

    d = g + mu*(y - x)
    x <- x + server_lr * mean(delta)

Vectors: 1 down, 1 up, none kept by the client.  Deviations: none; the paper's inexact local solver is local SGD here.
"""

from __future__ import annotations

from dataclasses import dataclass

from driftless.algorithm import Algorithm, Delta, Model
from driftless.algorithms.checks import not_negative, positive


@dataclass(frozen=True)
class FedProx(Algorithm):
    """FedAvg with a proximal term."""

    mu: float = 0.01
    server_lr: float = 1.0

    name = "fedprox"
    citation = "Li et al., MLSys 2020, arXiv:1812.06127"
    weighting = "uniform"

    def __post_init__(self):
        not_negative(self, "mu")
        positive(self, "server_lr")

    def direction(self, step, local, msg: Model, client, r):
        return step.g + self.mu * (step.y - msg.x), local

    def update(self, server: Model, mean: Delta, r):
        return Model(server.x + self.server_lr * mean.delta)
