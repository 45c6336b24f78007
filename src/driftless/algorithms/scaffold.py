"""SCAFFOLD. Karimireddy et al., ICML 2020, arXiv:1910.06378."""

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
    """Control variates correct each local step by how the client's gradient differs from the mean of all clients.

    c_i estimates the gradient of client i, c the mean of all N of them, so g - c_i + c points where all clients
    together would go. size_adaptive weighs the clients in c by their examples: w_i = n_i/r, r the mean number, and
    clients take c/w_i; r cancels, and c is r times larger. It is the plain form when all n_i are equal.

    Paper: Karimireddy, Kale, Mohri, Reddi, Stich, Suresh. SCAFFOLD: Stochastic Controlled Averaging for Federated
    Learning. ICML 2020, arXiv:1910.06378: Algorithm 1, Options I and II; unbalanced data: Appendix B of the AdaBest
    paper (arXiv:2204.13170). Symbols of the paper: eta_l is lr, eta_g is server_lr, S is the cohort.

    Equations:
        local step (size_adaptive=False): d = g - c_i + c
        local step (size_adaptive=True): d = g - c_i + c/n_i
        client (option=1): c_i_new = grad(f_i, x)
        client (option=2, size_adaptive=False): c_i_new = c_i - c + (x - y)/(K*lr)
        client (option=2, size_adaptive=True): c_i_new = c_i - c/n_i + (x - y)/(K*lr)
        client (size_adaptive=False): delta_c = c_i_new - c_i
        client (size_adaptive=True): delta_c = n_i*(c_i_new - c_i)
        client: c_i <- c_i_new
        server: x <- x + server_lr*mean(delta)
        server: c <- c + M/N*mean(delta_c)

    Hyper-parameters:
        server_lr: how far the server moves towards the mean of the client models; greater than 0. The GHBM paper tried
            1, 0.5 and 0.1 and chose 1; with 0.1 % of the clients of iNaturalist in a round it found no value with which
            SCAFFOLD converged. Too large, the loss swings or grows from round to round; too small, it falls slowly.
        option: how a client renews c_i; 1 or 2. 1 takes the full-batch gradient at x, grad(f_i, x), which costs a pass
            over the client's data; 2 takes the mean of its local gradients, which costs nothing. The GHBM paper found 1
            usually worse, at almost twice the time.
        size_adaptive: whether the control variates are weighed by the clients' examples; True or False. With True, and
            clients of different sizes, the goal is the minimum of the mean over all examples, with False that of the
            mean over clients.

    Vectors: 2 down, 2 up, 1 kept by the client.

    Deviations: none without size_adaptive. FedDyn's public code, which Appendix B cites for the weights, has c, not
    c/w_i, in option 2, so that its c_i_new is not the mean local gradient.
    """

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
