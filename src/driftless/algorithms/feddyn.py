"""FedDyn: a linear and a proximal term make each client's stationary point the global one.

Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama. Federated Learning Based on Dynamic Regularization. ICLR 2021,
arXiv:2111.04263. In the form of Algorithm 1 of the AdaBest paper (arXiv:2204.13170).

    d   = g - h_i - mu*(x - y)
    h_i <- h_i + mu*(x - y)
    h   <- h + M/N*(x - x_bar);  x <- x_bar - h

Symbols: alpha (FedDyn) -> mu, theta^{t-1} -> x, theta_i^t -> y, theta-bar^t -> x_bar.
Vectors: 1 down, 1 up, 1 kept by the client.  Deviations: none. The aggregate x_bar = x + h is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Delta, Model, Vector
from driftless.algorithms.checks import not_negative


class Server(NamedTuple):
    x: Vector
    h: Vector


class Client(NamedTuple):
    h: Vector


@dataclass(frozen=True)
class FedDyn(Algorithm):
    """Dynamic regularisation."""

    mu: float = 0.02

    name = "feddyn"
    citation = "Acar et al., ICLR 2021, arXiv:2111.04263"
    weighting = "uniform"

    def __post_init__(self):
        not_negative(self, "mu")

    def init_server(self, x, facts):
        return Server(x, torch.zeros_like(x))

    def init_client(self, x):
        return Client(torch.zeros_like(x))

    def direction(self, step, local, msg: Model, client: Client, r):
        return step.g - client.h - self.mu * (msg.x - step.y), local

    def upload(self, y, local, msg: Model, client: Client, r):
        return Delta(y - msg.x), Client(client.h + self.mu * (msg.x - y))

    def update(self, server: Server, mean: Delta, r):
        x_bar = server.x + mean.delta
        h = server.h + r.cohort / r.clients * (server.x - x_bar)
        return Server(x_bar - h, h)

    def inference(self, server: Server):
        return server.x + server.h
