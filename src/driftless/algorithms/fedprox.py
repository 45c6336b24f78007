"""FedProx. Li et al., MLSys 2020, arXiv:1812.06127."""

from __future__ import annotations

from dataclasses import dataclass

from driftless.algorithm import Algorithm, Delta, Model
from driftless.algorithms.checks import not_negative, positive


@dataclass(frozen=True)
class FedProx(Algorithm):
    """FedAvg with a term in the local loss, mu/2*norm(y - x)**2, that holds the clients near the server's model.

    A client that may not go far cannot drift far. The price is that all clients move less in a round.

    Paper: Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith. Federated Optimization in Heterogeneous Networks. MLSys 2020,
    arXiv:1812.06127.

    Equations:
        local step: d = g + mu*(y - x)
        server: x <- x + server_lr*mean(delta)

    Hyper-parameters:
        mu: how strongly y is held near x; 0 or more. 0 is FedAvg. The GHBM paper tried 0.1, 0.01, 0.001 and, on the
            texts, 0.0001, and chose 0.1 on CIFAR, 0.0001 on Shakespeare and 0.01 on StackOverflow. Too large, the
            clients hardly move, and beyond lr*mu = 2 the local steps diverge; too small, the drift is FedAvg's.
        server_lr: how far the server moves towards the mean of the client models; greater than 0. The GHBM paper tried
            1, 0.5 and 0.1 and chose 1. Too large, the loss swings or grows from round to round; too small, it falls
            slowly.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: none; the paper's inexact local solver is local SGD here.
    """

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
