"""Generalised heavy-ball momentum: each local step adds the server's mean progress over tau rounds.

Zaccone, Masone, Ciccone. Communication-Efficient Heterogeneous Federated Learning with Generalized Heavy-Ball Momentum.
2024, arXiv:2311.18578: Algorithms 1 and 2 (Algorithm 3, the analysed form: ghbm_theory.py).

    GHBM         each step adds beta/(tau*K) * (x^{t-1} - x^{t-tau-1})
    LocalGHBM    each step adds beta/(tau_i*K) * (x - x_old),  x_old the model the client received at t_last
    FedHBM       each step adds beta/(tau_i*K) * (y - y_old),  y_old its own final model of t_last, y the iterate
                 tau_i = t - t_last; the last two add nothing the first time
    all three    x <- x + server_lr*mean(delta)
    server-GHBM  clients plain SGD;  x <- x - server_lr*D + beta/tau*(x^{t-1} - x^{t-tau-1}), clamped at x^0

Symbols: theta^{t} -> x, theta_i -> y, J -> K.
Vectors: GHBM 2 down, 1 up, none kept; LocalGHBM, FedHBM 1 down, 1 up, 1 kept by the client.
Deviations: Algorithm 2 lacks 1/lr, put back here as d = g - step/lr. The rounds t <= tau are not defined: start="zero"
has no momentum until x^{t-tau-1} exists, "clamp" reads models before round 0 as x^0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Delta, Model, Round, Scalar, Vector
from driftless.algorithms.checks import choice, count, not_negative, positive
from driftless.algorithms.states import Momentum

ZACCONE = "Zaccone et al., 2024, arXiv:2311.18578"


class Server(NamedTuple):
    """Of GHBM and ServerGHBM."""

    x: Vector
    past: tuple[Vector, ...]
    """The tau models before x, the oldest first; x^0 where there was none yet."""

    def then(self, x: Vector) -> Server:
        return Server(x, (*self.past[1:], self.x))


class Client(NamedTuple):
    """The model it received (LocalGHBM) or made (FedHBM) when it last took part."""

    old: Vector
    t_last: Scalar


@dataclass(frozen=True)
class GHBM(Algorithm):
    """Heavy-ball momentum over tau rounds, applied in the local steps."""

    beta: float = 0.9
    tau: int = 10
    server_lr: float = 1.0
    start: str = "zero"

    name = "ghbm"
    citation = ZACCONE
    weighting = "uniform"

    def __post_init__(self):
        not_negative(self, "beta")
        count(self, "tau")
        positive(self, "server_lr")
        choice(self, "start", "zero", "clamp")

    def init_server(self, x, facts):
        return Server(x, (x,) * self.tau)

    def broadcast(self, server: Server):
        return Momentum(server.x, (server.past[0] - server.x) / self.tau)

    def direction(self, step, local, msg: Momentum, client, r):
        gain = self.beta / (r.lr * r.steps)
        if self.start == "zero":
            gain = torch.where(r.t > self.tau, gain, 0.0)
        return step.g + gain * msg.m, local

    def update(self, server: Server, mean: Delta, r):
        return server.then(server.x + self.server_lr * mean.delta)


@dataclass(frozen=True)
class LocalGHBM(Algorithm):
    """GHBM from the model the client received last time: no extra communication."""

    beta: float = 0.9
    server_lr: float = 1.0

    name = "localghbm"
    citation = ZACCONE
    weighting = "uniform"

    def __post_init__(self):
        not_negative(self, "beta")
        positive(self, "server_lr")

    def init_client(self, x):
        return Client(torch.zeros_like(x), x.new_zeros(()))

    def direction(self, step, local, msg: Model, client: Client, r):
        return step.g - memory_gain(self.beta, client, r) * (msg.x - client.old), local

    def upload(self, y, local, msg: Model, client: Client, r):
        return Delta(y - msg.x), Client(msg.x, r.t)

    def update(self, server: Model, mean: Delta, r):
        return Model(server.x + self.server_lr * mean.delta)


@dataclass(frozen=True)
class FedHBM(Algorithm):
    """Momentum from the client's own last model, recomputed each step."""

    beta: float = 1.0
    server_lr: float = 1.0

    name = "fedhbm"
    citation = ZACCONE
    weighting = "uniform"

    def __post_init__(self):
        not_negative(self, "beta")
        positive(self, "server_lr")

    def init_client(self, x):
        return Client(torch.zeros_like(x), x.new_zeros(()))

    def direction(self, step, local, msg: Model, client: Client, r):
        return step.g - memory_gain(self.beta, client, r) * (step.y - client.old), local

    def upload(self, y, local, msg: Model, client: Client, r):
        return Delta(y - msg.x), Client(y, r.t)

    def update(self, server: Model, mean: Delta, r):
        return Model(server.x + self.server_lr * mean.delta)


def memory_gain(beta: float, client: Client, r: Round) -> Scalar:
    """beta/(lr*tau_i*K), and 0 for a client that never took part."""
    tau = r.t - client.t_last
    return torch.where(client.t_last > 0, beta / (r.lr * tau * r.steps), 0.0)


@dataclass(frozen=True)
class ServerGHBM(Algorithm):
    """GHBM on the server alone: the clients run plain SGD."""

    beta: float = 0.9
    tau: int = 10
    server_lr: float = 1.0

    name = "server-ghbm"
    citation = ZACCONE
    weighting = "uniform"

    def __post_init__(self):
        not_negative(self, "beta")
        count(self, "tau")
        positive(self, "server_lr")

    def init_server(self, x, facts):
        return Server(x, (x,) * self.tau)

    def update(self, server: Server, mean: Delta, r):
        momentum = self.beta / self.tau * (server.x - server.past[0])
        return server.then(server.x + self.server_lr * mean.delta + momentum)
