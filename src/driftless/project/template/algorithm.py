"""Your own algorithm: a frozen dataclass whose fields are settings: `driftless run config.toml algorithm.mu=0.1`."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from driftless import Algorithm


class Server(NamedTuple):
    x: Tensor
    m: Tensor
    """Mean of the updates so far, the older ones fading."""


@dataclass(frozen=True)
class Damped(Algorithm):
    """FedProx's local steps, which stay near the server's model, and momentum at the server.

    mu: pull of the server's model, d = g + mu (y - x). beta: momentum, m <- beta m + mean of (y - x), x <- x + m.
    """

    mu: float = 0.05
    beta: float = 0.5

    def init_server(self, x, facts):
        return Server(x, torch.zeros_like(x))

    def direction(self, step, local, msg, client, r):
        return step.g + self.mu * (step.y - msg.x), local

    def update(self, server, mean, r):
        m = self.beta * server.m + mean.delta
        return Server(server.x + m, m)
