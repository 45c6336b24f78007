"""GHBM, LocalGHBM, FedHBM and GHBM on the server. Zaccone et al., 2024, arXiv:2311.18578."""

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
    """Each local step adds a share of the server's mean progress over the last tau rounds.

    Generalised heavy-ball momentum. In tau = N/M rounds about all clients take part, so the progress over tau rounds is
    close to that of all clients, and the momentum corrects the drift that one cohort cannot see. x[s] is the server's
    model after round s; in round t x is x[t - 1], and each step adds beta/(tau*K)*(x[t - 1] - x[t - tau - 1]).

    Paper: Zaccone, Masone, Ciccone. Communication-Efficient Heterogeneous Federated Learning with Generalized
    Heavy-Ball Momentum. 2024, arXiv:2311.18578: Algorithms 1 and 2 (Algorithm 3, the analysed form, is GHBMTheory).
    Symbols of the paper: theta^{t-1} is x, theta_i is y, J is K.

    Equations:
        local step (start=zero, t <= tau): d = g
        local step (start=zero, t > tau): d = g - beta/(lr*tau*K)*(x - x[t - tau - 1])
        local step (start=clamp): d = g - beta/(lr*tau*K)*(x - x[max(t - tau - 1, 0)])
        server: x <- x + server_lr*mean(delta)

    Hyper-parameters:
        beta: how much of the progress is added again in a round; 0 or more. 0 is FedAvg. The paper used 0.9 throughout.
            From server_lr*beta = 1 on, the server's moves do not shrink by themselves.
        tau: over how many rounds the progress is averaged; a whole number, 1 or more. Start at N/M, the inverse of the
            share of clients in a round. The paper tried 5, 10, 20 and 40: for 10 % of the clients 10 was best and
            larger values only a little worse; it chose 20 on StackOverflow. Our search on digits (examples/digits.toml)
            chose 10 of 2, 5, 10. Too small, the momentum is that of the last cohorts; too large, it is out of date. The
            server keeps tau models.
        server_lr: how far the server moves towards the mean of the client models; greater than 0. Start at 1; the paper
            tried 1, 0.5 and 0.1 and chose 1 on StackOverflow. Too large, the loss swings or grows from round to round;
            too small, it falls slowly.
        start: what is done while there are fewer than tau rounds behind; "zero" or "clamp". "zero": no momentum;
            "clamp": models before the first are read as x[0], so the momentum grows slowly.

    Vectors: 2 down, 1 up, none kept by the client.

    Deviations: Algorithm 2 lacks 1/lr, put back here. The rounds t <= tau are not defined: start="zero" has no momentum
    until x[t - tau - 1] exists, "clamp" reads models before round 0 as x[0].
    """

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
    """GHBM from the model that the client received when it last took part, so that nothing more has to be sent.

    The client keeps x_old, the model it received in round t_last, and adds beta/(tau_i*K)*(x - x_old) in each local
    step: tau is not a setting but the time since its last round. It adds nothing the first time (t_last = 0).

    Paper: Zaccone, Masone, Ciccone. Communication-Efficient Heterogeneous Federated Learning with Generalized
    Heavy-Ball Momentum. 2024, arXiv:2311.18578: Algorithms 1 and 2. Symbols of the paper: theta^{t-1} is x, theta_i is
    y, J is K.

    Equations:
        local step: tau_i = t - t_last
        local step (t_last == 0): d = g
        local step (t_last > 0): d = g - beta/(lr*tau_i*K)*(x - x_old)
        client: x_old <- x
        server: x <- x + server_lr*mean(delta)

    Hyper-parameters:
        beta: how much of the progress is added again in a round; 0 or more. 0 is FedAvg. Start at 0.9, the paper's
            value for GHBM. From server_lr*beta = 1 on, the server's moves do not shrink by themselves.
        server_lr: how far the server moves towards the mean of the client models; greater than 0. Start at 1. Too
            large, the loss swings or grows from round to round; too small, it falls slowly.

    Vectors: 1 down, 1 up, 1 kept by the client.

    Deviations: Algorithm 2 lacks 1/lr, put back here.
    """

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
    """Each local step adds a share of the way from the client's own last model to its present iterate.

    The client keeps y_old, its own final model of round t_last, and adds beta/(tau_i*K)*(y - y_old) in each local step,
    with the present y. So nothing more has to be sent, and the momentum follows the local steps. It adds nothing the
    first time (t_last = 0). It can diverge when all clients take part in every round.

    Paper: Zaccone, Masone, Ciccone. Communication-Efficient Heterogeneous Federated Learning with Generalized
    Heavy-Ball Momentum. 2024, arXiv:2311.18578: Algorithms 1 and 2. Symbols of the paper: theta^{t-1} is x, theta_i is
    y, J is K.

    Equations:
        local step: tau_i = t - t_last
        local step (t_last == 0): d = g
        local step (t_last > 0): d = g - beta/(lr*tau_i*K)*(y - y_old)
        client: y_old <- y
        server: x <- x + server_lr*mean(delta)

    Hyper-parameters:
        beta: how much of the way is added again in a round; 0 or more. 0 is FedAvg. The paper tried 1, 0.99 and 0.9 and
            chose 1 with a CNN on CIFAR and on StackOverflow; our search on digits (examples/digits.toml) 0.8 of 0.5,
            0.8, 1. If the loss grows, lower beta first.
        server_lr: how far the server moves towards the mean of the client models; greater than 0. Start at 1; the paper
            tried 1, 0.5 and 0.1 and chose 1 with a CNN on CIFAR and on StackOverflow. Too large, the loss swings or
            grows from round to round; too small, it falls slowly.

    Vectors: 1 down, 1 up, 1 kept by the client.

    Deviations: Algorithm 2 lacks 1/lr, put back here.
    """

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
    """GHBM on the server alone: clients run plain SGD, and the server adds its mean progress over the last tau rounds.

    It shows what the momentum is worth without its correction of the local steps. x[s] is the server's model after
    round s; in round t x is x[t - 1], and models before the first are read as x[0].

    Paper: Zaccone, Masone, Ciccone. Communication-Efficient Heterogeneous Federated Learning with Generalized
    Heavy-Ball Momentum. 2024, arXiv:2311.18578: GHBM as momentum of the server, Appendix C.8. Symbols of the paper:
    theta^{t-1} is x, theta_i is y, J is K.

    Equations:
        local step: d = g
        server: D = -mean(delta)
        server: x <- x - server_lr*D + beta/tau*(x - x[max(t - tau - 1, 0)])

    Hyper-parameters:
        beta: how much of the progress is added again; 0 or more. 0 is FedAvg. Start at 0.9, the paper's value for GHBM.
            From 1 on, the server's moves do not shrink by themselves.
        tau: over how many rounds the progress is averaged; a whole number, 1 or more. 1 is FedAvgM. Start at N/M, as
            for GHBM. The server keeps tau models.
        server_lr: how far the server moves towards the mean of the client models; greater than 0. Start at 1. Too
            large, the loss swings or grows from round to round; too small, it falls slowly.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: the first tau rounds are not defined in the paper: models before round 0 are x[0].
    """

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
