"""FedDyn. Acar et al., ICLR 2021, arXiv:2111.04263."""

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
    """A linear and a proximal term make the point where each client stops the global one.

    h_i tends to the gradient of client i, the sum of them to zero. size_adaptive: both terms are weighed by r/n_i, r
    the mean of n over the S participations of earlier rounds (r/n_i is 1 in the first round), so that h_i tends to
    n_i/r times its gradient, the sum to the gradient of the mean over all examples; the plain form when all n_i are
    equal. x_bar = x + h is evaluated.

    Paper: Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama. Federated Learning Based on Dynamic Regularization.
    ICLR 2021, arXiv:2111.04263. In the form of Algorithm 1 of the AdaBest paper (arXiv:2204.13170); unbalanced data:
    its Appendix B. Symbols: alpha (FedDyn) is mu, theta^{t-1} is x, theta_i^t is y, theta-bar^t is x_bar.

    Equations:
        local step (size_adaptive=False): d = g - h_i - mu*(x - y)
        local step (size_adaptive=True, r == 0): d = g - h_i - mu*(x - y)
        local step (size_adaptive=True, r > 0): d = g - r/n_i*(h_i + mu*(x - y))
        client: h_i <- h_i + mu*(x - y)
        server: x_bar = mean(y)
        server: h <- h + M/N*(x - x_bar)
        server: x <- x_bar - h
        server (size_adaptive=True): S <- S + M
        server (size_adaptive=True): r <- r + M/S*(mean(n_i) - r)

    Hyper-parameters:
        mu: the weight of the proximal term and the speed of h_i; 0 or more. The AdaBest paper tried 0.002, 0.02 and
            0.2: 0.02 was best, on EMNIST-L 0.2 also worked well. The GHBM paper chose 0.001 on CIFAR, 0.009 on
            Shakespeare and 0.1 on StackOverflow; our search on digits (examples/digits.toml) 0.2 of 0.01, 0.05, 0.2.
            The AdaBest paper finds accuracy and stability over many rounds to depend heavily on it. With few of many
            clients in a round it saw the norm of x grow without end.
        size_adaptive: whether clients are weighed by their examples; True or False. With True, and clients of different
            sizes, the goal is the minimum of the mean over all examples, with False that of the mean over clients.

    Vectors: 1 down, 1 up, 1 kept by the client.

    Deviations: none without size_adaptive. The authors' public code takes r over all clients, known before the first
    round.
    """

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
