"""FedAvg and FedSGD: the server moves to the mean of the client models.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas. Communication-Efficient Learning of Deep Networks from Decentralized
Data. AISTATS 2017, arXiv:1602.05629. With a server learning rate as in Reddi et al. 2021 (Algorithm 1 of the
large-cohort paper, arXiv:2106.07820).

    D = -mean(delta)
    x <- x - server_lr * D

FedSGD is the case of one local step on the full local batch with lr = 1, so that -delta is the client's gradient.

Vectors: 1 down, 1 up, none kept by the client.  Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from driftless.algorithm import Algorithm, Delta, Model
from driftless.algorithms.checks import positive

MCMAHAN = "McMahan et al., AISTATS 2017, arXiv:1602.05629"


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Average the client models."""

    server_lr: float = 1.0

    name = "fedavg"
    citation = MCMAHAN

    def __post_init__(self):
        positive(self, "server_lr")

    def update(self, server: Model, mean: Delta, r):
        return Model(server.x + self.server_lr * mean.delta)


@dataclass(frozen=True)
class FedSGD(Algorithm):
    """Average the client gradients: large-batch SGD."""

    server_lr: float = 1.0

    name = "fedsgd"
    citation = MCMAHAN
    local_must_be = {"steps": 1, "batch_size": None, "lr": 1.0, "lr_decay": 1.0}  # noqa: RUF012

    def __post_init__(self):
        positive(self, "server_lr")

    def update(self, server: Model, mean: Delta, r):
        return Model(server.x + self.server_lr * mean.delta)
