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
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Delta, Vector
from driftless.algorithms.checks import choice, decay, positive
from driftless.algorithms.optimizers import check_optimizer, optimizer_of
from driftless.algorithms.states import Biased, Momentum

MIME = "Karimireddy et al., NeurIPS 2021, arXiv:2008.03606"


class Upload(NamedTuple):
    """Of MimeLite and MimeLiteMom."""

    delta: Vector
    gradient: Vector


@dataclass(frozen=True)
class MimeLite(Algorithm):
    """Fixed statistics on the clients, tracked with full gradients."""

    optimizer: str = "sgdm"
    beta: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    name = "mimelite"
    citation = MIME
    weighting = "uniform"
    full_gradient = "after"

    def __post_init__(self):
        check_optimizer(self)

    def init_server(self, x, facts):
        return Biased(x, optimizer_of(self).initial(x))

    def broadcast(self, server: Biased):
        return server

    def direction(self, step, local, msg: Biased, client, r):
        return optimizer_of(self).use(step.g, msg.statistics), local

    def upload(self, y, local, msg: Biased, client, r):
        return Upload(y - msg.x, r.gradient), client

    def update(self, server: Biased, mean: Upload, r):
        return Biased(server.x + mean.delta, optimizer_of(self).track(server.statistics, mean.gradient))


@dataclass(frozen=True)
class Mime(Algorithm):
    """MimeLite with SVRG-corrected local gradients."""

    optimizer: str = "sgdm"
    beta: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    name = "mime"
    citation = MIME
    weighting = "uniform"
    anchor_gradient = True
    full_gradient = "before"

    def __post_init__(self):
        check_optimizer(self)

    def init_server(self, x, facts):
        return Biased(x, optimizer_of(self).initial(x))

    def broadcast(self, server: Biased):
        return server

    def direction(self, step, local, msg: Biased, client, r):
        return optimizer_of(self).use(step.g - step.g_x + r.cohort_gradient, msg.statistics), local

    def update(self, server: Biased, mean: Delta, r):
        return Biased(server.x + mean.delta, optimizer_of(self).track(server.statistics, r.cohort_gradient))


@dataclass(frozen=True)
class MimeLiteMom(Algorithm):
    """MimeLite with momentum in the form of the GHBM paper."""

    beta: float = 0.9
    server_lr: float = 1.0
    form: str = "heavy-ball"

    name = "mimelitemom"
    citation = MIME
    weighting = "uniform"
    full_gradient = "after"

    def __post_init__(self):
        check_momentum(self)

    def init_server(self, x, facts):
        return Momentum(x, torch.zeros_like(x))

    def broadcast(self, server: Momentum):
        return server

    def direction(self, step, local, msg: Momentum, client, r):
        return self.beta * msg.m + gain(self) * step.g, local

    def upload(self, y, local, msg: Momentum, client, r):
        return Upload(y - msg.x, r.gradient), client

    def update(self, server: Momentum, mean: Upload, r):
        m = self.beta * server.m + gain(self) * mean.gradient
        return Momentum(server.x + self.server_lr * mean.delta, m)


@dataclass(frozen=True)
class MimeMom(Algorithm):
    """Mime with momentum in the form of the GHBM paper."""

    beta: float = 0.9
    server_lr: float = 1.0
    form: str = "heavy-ball"

    name = "mimemom"
    citation = MIME
    weighting = "uniform"
    anchor_gradient = True
    full_gradient = "before"

    def __post_init__(self):
        check_momentum(self)

    def init_server(self, x, facts):
        return Momentum(x, torch.zeros_like(x))

    def broadcast(self, server: Momentum):
        return server

    def direction(self, step, local, msg: Momentum, client, r):
        return self.beta * msg.m + gain(self) * (step.g - step.g_x + r.cohort_gradient), local

    def update(self, server: Momentum, mean: Delta, r):
        m = self.beta * server.m + gain(self) * r.cohort_gradient
        return Momentum(server.x + self.server_lr * mean.delta, m)


def check_momentum(algorithm: MimeMom | MimeLiteMom) -> None:
    decay(algorithm, "beta")
    positive(algorithm, "server_lr")
    choice(algorithm, "form", "heavy-ball", "ema")


def gain(algorithm: MimeMom | MimeLiteMom) -> float:
    return 1 - algorithm.beta if algorithm.form == "ema" else 1.0
