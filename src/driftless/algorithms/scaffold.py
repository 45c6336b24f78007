"""SCAFFOLD: control variates estimate how a client's gradient differs from everybody's.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh. SCAFFOLD: Stochastic Controlled Averaging for Federated Learning.
ICML 2020, arXiv:1910.06378: Algorithm 1, Options I and II. SCAFFOLD/m: Algorithm 1 of the AdaBest paper
(arXiv:2204.13170), where only the client's model is uploaded.

    d    = g - c_i + c
    c_i' = full-batch gradient at x                      (option 1)
    c_i' = c_i - c + (x - y)/(K*lr)                      (option 2)
    x <- x + server_lr*mean(delta);  c <- c + M/N * mean(c_i' - c_i)

    SCAFFOLD/m: h in place of c;  h <- (N-M)/N*h + M/(K_bar*lr*N)*(x - x_bar);  x <- x_bar

Symbols: eta_l -> lr, eta_g -> server_lr, S -> cohort.
Vectors: Scaffold 2 down, 2 up, 1 kept by the client; ScaffoldSlim 2 down, 1 up, 1 kept.
Deviations: the AdaBest paper prints the factor (N-1)/N, exact only for M = 1, and repeats the server line as the
client line of SCAFFOLD/m; retention="exact" gives SCAFFOLD's own trajectory, "paper" the printed factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from driftless.algorithm import Algorithm, Delta, Vector
from driftless.algorithms.checks import choice, positive


class Controlled(NamedTuple):
    """Server state and message."""

    x: Vector
    c: Vector


class Control(NamedTuple):
    c: Vector


class ControlledDelta(NamedTuple):
    delta: Vector
    delta_c: Vector


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """Control variates on clients and server."""

    server_lr: float = 1.0
    option: int = 2

    citation: ClassVar[str] = "Karimireddy et al., ICML 2020, arXiv:1910.06378"
    weighting: ClassVar[str] = "uniform"
    uniform: ClassVar[frozenset[str]] = frozenset({"delta_c"})

    def __post_init__(self):
        positive(self, "server_lr")
        choice(self, "option", 1, 2)

    @property
    def full_gradient(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return "after" if self.option == 1 else ""

    def init_server(self, x, facts):
        return Controlled(x, torch.zeros_like(x))

    def init_client(self, x):
        return Control(torch.zeros_like(x))

    def broadcast(self, server):
        return server

    def direction(self, step, local, msg, client, r):
        return step.g - client.c + msg.c, local

    def upload(self, y, local, msg, client, r):
        c = r.gradient if self.option == 1 else client.c - msg.c + (msg.x - y) / (r.steps * r.lr)
        return ControlledDelta(y - msg.x, c - client.c), Control(c)

    def update(self, server, mean, r):
        c = server.c + r.cohort / r.clients * mean.delta_c
        return Controlled(server.x + self.server_lr * mean.delta, c)


class Slim(NamedTuple):
    """Server state and message."""

    x: Vector
    h: Vector


@dataclass(frozen=True)
class ScaffoldSlim(Algorithm):
    """SCAFFOLD/m: the server rebuilds its control variate from the aggregate."""

    retention: str = "exact"

    citation: ClassVar[str] = "Varno et al., ECCV 2022, arXiv:2204.13170 (SCAFFOLD/m)"
    weighting: ClassVar[str] = "uniform"

    def __post_init__(self):
        choice(self, "retention", "exact", "paper")

    def init_server(self, x, facts):
        return Slim(x, torch.zeros_like(x))

    def init_client(self, x):
        return Control(torch.zeros_like(x))

    def broadcast(self, server):
        return server

    def direction(self, step, local, msg, client, r):
        return step.g - client.c + msg.h, local

    def upload(self, y, local, msg, client, r):
        c = client.c - msg.h + (msg.x - y) / (r.steps * r.lr)
        return Delta(y - msg.x), Control(c)

    def update(self, server, mean, r):
        leaving = r.cohort if self.retention == "exact" else 1
        kept = (r.clients - leaving) / r.clients
        h = kept * server.h - r.cohort / (r.steps * r.lr * r.clients) * mean.delta
        return Slim(server.x + mean.delta, h)
