"""Mime and MimeLite: clients imitate a centralised optimiser whose statistics come from full gradients at x.

Karimireddy, Jaggi, Kale, Mohri, Reddi, Stich, Suresh. Breaking the Centralized Barrier for Cross-Device Federated
Learning (Mime). NeurIPS 2021, arXiv:2008.03606. Mime, MimeLite with the rules U and T of optimizers.py as in the FedGBO
paper (arXiv:2108.09134); MimeMom, MimeLiteMom as in the GHBM paper (arXiv:2311.18578).

    MimeLite     d = U(g)                x' = x_bar;  (m, v) <- T(m, v, c)
    Mime         d = U(g - g_x + c)      the same
    MimeLiteMom  d = beta*m + g          m <- beta*m + c;  x <- x + server_lr*mean(delta)
    MimeMom      d = beta*m + g - g_x + c

c is the cohort's mean full-batch gradient at x, g_x the same minibatch's gradient at x. form="ema" puts (1-beta) before
g (or g - g_x + c) and before c.

Vectors: MimeLite 2 down (3 with Adam), 2 up; Mime the same and 1 more down: the full gradients go up first and c comes
down before the local steps. None kept by the client.  Deviations: none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from driftless.algorithm import Algorithm, Vector
from driftless.algorithms.checks import choice, decay, positive
from driftless.algorithms.fedgbo import Biased
from driftless.algorithms.fedopt import Momentum
from driftless.algorithms.optimizers import check, initial, track, use

MIME = "Karimireddy et al., NeurIPS 2021, arXiv:2008.03606"


class DeltaAndGradient(NamedTuple):
    delta: Vector
    gradient: Vector


@dataclass(frozen=True)
class MimeLite(Algorithm):
    """Fixed statistics on the clients, tracked with full gradients."""

    optimizer: str = "sgdm"
    beta: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    citation: ClassVar[str] = MIME
    weighting: ClassVar[str] = "uniform"
    full_gradient: ClassVar[str] = "after"

    def __post_init__(self):
        check(self)

    def init_server(self, x, facts):
        return Biased(x, initial(self, x))

    def broadcast(self, server):
        return server

    def direction(self, step, local, msg, client, r):
        return use(self, step.g, msg.statistics), local

    def upload(self, y, local, msg, client, r):
        return DeltaAndGradient(y - msg.x, r.gradient), client

    def update(self, server, mean, r):
        return Biased(server.x + mean.delta, track(self, server.statistics, mean.gradient))


@dataclass(frozen=True)
class Mime(Algorithm):
    """MimeLite with SVRG-corrected local gradients."""

    optimizer: str = "sgdm"
    beta: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    citation: ClassVar[str] = MIME
    weighting: ClassVar[str] = "uniform"
    anchor_gradient: ClassVar[bool] = True
    full_gradient: ClassVar[str] = "before"

    def __post_init__(self):
        check(self)

    def init_server(self, x, facts):
        return Biased(x, initial(self, x))

    def broadcast(self, server):
        return server

    def direction(self, step, local, msg, client, r):
        return use(self, step.g - step.g_x + r.cohort_gradient, msg.statistics), local

    def update(self, server, mean, r):
        return Biased(server.x + mean.delta, track(self, server.statistics, r.cohort_gradient))


@dataclass(frozen=True)
class MimeLiteMom(Algorithm):
    """MimeLite with momentum in the form of the GHBM paper."""

    beta: float = 0.9
    server_lr: float = 1.0
    form: str = "heavy-ball"

    citation: ClassVar[str] = MIME
    weighting: ClassVar[str] = "uniform"
    full_gradient: ClassVar[str] = "after"

    def __post_init__(self):
        check_momentum(self)

    def init_server(self, x, facts):
        return Momentum(x, torch.zeros_like(x))

    def broadcast(self, server):
        return server

    def direction(self, step, local, msg, client, r):
        return self.beta * msg.m + gain(self) * step.g, local

    def upload(self, y, local, msg, client, r):
        return DeltaAndGradient(y - msg.x, r.gradient), client

    def update(self, server, mean, r):
        m = self.beta * server.m + gain(self) * mean.gradient
        return Momentum(server.x + self.server_lr * mean.delta, m)


@dataclass(frozen=True)
class MimeMom(Algorithm):
    """Mime with momentum in the form of the GHBM paper."""

    beta: float = 0.9
    server_lr: float = 1.0
    form: str = "heavy-ball"

    citation: ClassVar[str] = MIME
    weighting: ClassVar[str] = "uniform"
    anchor_gradient: ClassVar[bool] = True
    full_gradient: ClassVar[str] = "before"

    def __post_init__(self):
        check_momentum(self)

    def init_server(self, x, facts):
        return Momentum(x, torch.zeros_like(x))

    def broadcast(self, server):
        return server

    def direction(self, step, local, msg, client, r):
        return self.beta * msg.m + gain(self) * (step.g - step.g_x + r.cohort_gradient), local

    def update(self, server, mean, r):
        m = self.beta * server.m + gain(self) * r.cohort_gradient
        return Momentum(server.x + self.server_lr * mean.delta, m)


def check_momentum(algorithm: MimeMom | MimeLiteMom) -> None:
    decay(algorithm, "beta")
    positive(algorithm, "server_lr")
    choice(algorithm, "form", "heavy-ball", "ema")


def gain(algorithm: MimeMom | MimeLiteMom) -> float:
    return 1 - algorithm.beta if algorithm.form == "ema" else 1.0
