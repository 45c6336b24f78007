"""SCAFFOLD: control variates estimate how a client's gradient differs from everybody's.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh. SCAFFOLD: Stochastic Controlled Averaging for Federated Learning.
ICML 2020, arXiv:1910.06378: Algorithm 1, Options I and II; unbalanced data: Appendix B of the AdaBest paper
(arXiv:2204.13170).

    d    = g - c_i + c
    c_i' = full-batch gradient at x                      (option 1)
    c_i' = c_i - c + (x - y)/(K*lr)                      (option 2)
    x <- x + server_lr*mean(delta);  c <- c + M/N * mean(c_i' - c_i)

size_adaptive: c/n_i for c on the clients, and c <- c + M/N * mean(n_i*(c_i' - c_i)). This is SCAFFOLD with a mean c of
weights w_i = n_i/r, r the mean number of examples, of which clients take c/w_i: r cancels, and c is r times larger. It
is the lines above when all n_i are equal.

Symbols: eta_l -> lr, eta_g -> server_lr, S -> cohort.
Vectors: Scaffold 2 down, 2 up, 1 kept by the client.
Deviations: none without size_adaptive. FedDyn's public code, which Appendix B cites for the weights, has c, not c/w_i,
in option 2, so that its c_i' is not the mean local gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Round, Vector
from driftless.algorithms.checks import choice, positive
from driftless.algorithms.states import Control, ControlledDelta


class Server(NamedTuple):
    """Server state and message."""

    x: Vector
    c: Vector


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """Control variates on clients and server."""

    server_lr: float = 1.0
    option: int = 2
    size_adaptive: bool = False

    name = "scaffold"
    citation = "Karimireddy et al., ICML 2020, arXiv:1910.06378"
    weighting = "uniform"
    uniform = frozenset({"delta_c"})

    def __post_init__(self):
        positive(self, "server_lr")
        choice(self, "option", 1, 2)
        choice(self, "size_adaptive", True, False)

    @property
    def full_gradient(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return "after" if self.option == 1 else ""

    def init_server(self, x, facts):
        return Server(x, torch.zeros_like(x))

    def init_client(self, x):
        return Control(torch.zeros_like(x))

    def broadcast(self, server: Server):
        return server

    def shared_control(self, msg: Server, r: Round) -> Vector:
        return msg.c / r.examples if self.size_adaptive else msg.c

    def direction(self, step, local, msg: Server, client: Control, r):
        return step.g - client.c + self.shared_control(msg, r), local

    def upload(self, y, local, msg: Server, client: Control, r):
        shared = self.shared_control(msg, r)
        c = r.gradient if self.option == 1 else client.c - shared + (msg.x - y) / (r.steps * r.lr)
        delta_c = r.examples * (c - client.c) if self.size_adaptive else c - client.c
        return ControlledDelta(y - msg.x, delta_c), Control(c)

    def update(self, server: Server, mean: ControlledDelta, r):
        c = server.c + r.cohort / r.clients * mean.delta_c
        return Server(server.x + self.server_lr * mean.delta, c)
