"""FedDyn: a linear and a proximal term make each client's stationary point the global one.

Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama. Federated Learning Based on Dynamic Regularization. ICLR 2021,
arXiv:2111.04263. In the form of Algorithm 1 of the AdaBest paper (arXiv:2204.13170); unbalanced data: its Appendix B.

    d   = g - h_i - mu*(x - y)
    d   = g - r/n_i * (h_i + mu*(x - y))                 (size_adaptive)
    h_i <- h_i + mu*(x - y)
    h   <- h + M/N*(x - x_bar);  x <- x_bar - h

size_adaptive: the proximal weight of client i is mu*r/n_i, so that its h_i tends to n_i/r times its gradient, and the
sum of them to the gradient of the mean over all examples. r is the mean of n over all participations of earlier rounds,
kept by the server; in the first round r/n_i is 1. It is the line above when all n_i are equal.

Symbols: alpha (FedDyn) -> mu, theta^{t-1} -> x, theta_i^t -> y, theta-bar^t -> x_bar.
Vectors: 1 down, 1 up, 1 kept by the client.  The aggregate x_bar = x + h is evaluated.
Deviations: none without size_adaptive. The authors' public code takes r over all clients, known before the first round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Delta, Model, Scalar, Vector
from driftless.algorithms.checks import choice, not_negative
from driftless.algorithms.states import Participations


class Server(NamedTuple):
    x: Vector
    h: Vector
    seen: Participations


class Message(NamedTuple):
    """Of the size-adaptive form."""

    x: Vector
    mean_examples: Scalar


class Client(NamedTuple):
    h: Vector


@dataclass(frozen=True)
class FedDyn(Algorithm):
    """Dynamic regularisation."""

    mu: float = 0.02
    size_adaptive: bool = False

    name = "feddyn"
    citation = "Acar et al., ICLR 2021, arXiv:2111.04263"
    weighting = "uniform"

    def __post_init__(self):
        not_negative(self, "mu")
        choice(self, "size_adaptive", True, False)

    def init_server(self, x, facts):
        return Server(x, torch.zeros_like(x), Participations.none(x))

    def init_client(self, x):
        return Client(torch.zeros_like(x))

    def broadcast(self, server: Server):
        return Message(server.x, server.seen.mean_examples) if self.size_adaptive else Model(server.x)

    def direction(self, step, local, msg: Model | Message, client: Client, r):
        if isinstance(msg, Message):
            size = torch.where(msg.mean_examples > 0, msg.mean_examples / r.examples, 1.0)
            return step.g - size * (client.h + self.mu * (msg.x - step.y)), local
        return step.g - client.h - self.mu * (msg.x - step.y), local

    def upload(self, y, local, msg: Model, client: Client, r):
        return Delta(y - msg.x), Client(client.h + self.mu * (msg.x - y))

    def update(self, server: Server, mean: Delta, r):
        x_bar = server.x + mean.delta
        h = server.h + r.cohort / r.clients * (server.x - x_bar)
        return Server(x_bar - h, h, server.seen.after(r.cohort, r.examples))

    def inference(self, server: Server):
        return server.x + server.h
