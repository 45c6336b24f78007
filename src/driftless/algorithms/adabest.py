"""AdaBest. Varno et al., ECCV 2022, arXiv:2204.13170."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Scalar, Vector
from driftless.algorithms.checks import choice, count, fraction, not_negative
from driftless.algorithms.states import Participations


class Plateau(NamedTuple):
    """How beta decays: its current value, the lowest norm of h so far, and the rounds since."""

    beta: Scalar
    lowest: Scalar
    since: Scalar


class Server(NamedTuple):
    x: Vector
    x_bar: Vector
    h: Vector
    seen: Participations
    plateau: Plateau


class Message(NamedTuple):
    x: Vector
    mean_examples: Scalar


class Client(NamedTuple):
    h: Vector
    t_last: Scalar


class Upload(NamedTuple):
    delta: Vector
    examples: Scalar


@dataclass(frozen=True)
class AdaBest(Algorithm):
    """Bias estimates that forget, on the clients by the rounds they missed, on the server by beta.

    h_i, from a client's own past updates, corrects its local steps; h, from the aggregates, the server's model. h_i
    shrinks with the rounds that its client missed, h by beta, so they do not grow without end. size_adaptive scales h_i
    by r/n_i, r the mean of n over the S participations of earlier rounds: it needs no knowledge of N and is the plain
    form when all n_i are equal. The aggregate x_bar is evaluated.

    Paper: Varno, Saghayi, Rafiee Sevyeri, Gupta, Matwin, Havaei. AdaBest: Minimizing Client Drift in Federated Learning
    via Adaptive Bias Estimation. ECCV 2022, arXiv:2204.13170: Algorithm 1; unbalanced data: Appendix B. Symbols of the
    paper: theta^{t-1} is x, theta_i^t is y, theta-bar^t is x_bar, t'_i is t_last.

    Equations:
        start: x_bar_prev = x[0]
        local step (size_adaptive=False): d = g - h_i
        local step (size_adaptive=True): d = g - r/n_i*h_i
        client: h_i <- h_i/(t - t_last) + mu*(x - y)
        server: x_bar = mean(y)
        server: h <- beta*(x_bar_prev - x_bar)
        server: x <- x_bar - h
        server: x_bar_prev <- x_bar
        server (size_adaptive=True): S <- S + M
        server (size_adaptive=True): r <- r + M/S*(mean(n_i) - r)

    Hyper-parameters:
        mu: how much of a client's last update enters its h_i; 0 or more. 0 switches the clients' correction off. The
            paper kept 0.02, FedDyn's best, and reports little sensitivity; the GHBM paper chose 0.001 on CIFAR, 0.009
            on Shakespeare and 0.1 on StackOverflow. The correction takes lr*K*mu times the client's last update back:
            keep this well below 1.
        beta: how much of the aggregates' last move is repeated; 0 to 1. 0 switches the server's correction off. The
            paper found the share of clients in a round to matter: for 1 % it tried 0.2, 0.4 and 0.6, otherwise 0.94 to
            1, and chose 0.96 for 10 % and 0.98 for all clients; our search on digits (examples/digits.toml) 0.95 of
            0.6, 0.8, 0.95. Smaller for harder tasks and fewer clients. h is the sum of past pseudo-gradients with
            weights beta, beta**2, ...: too large, x swings.
        size_adaptive: whether h_i is scaled by r/n_i; True or False. It matters for clients of different sizes only;
            the paper's experiments have it.
        beta_decay: by what beta is multiplied on a plateau; 0 to 1. Without effect while plateau_rounds is 0.
        plateau_rounds: after how many rounds without a new lowest norm(h) beta is multiplied by beta_decay; a whole
            number, 0 or more. 0 switches this off.

    Vectors: 1 down, 1 up, 1 kept by the client.

    Deviations: mu stands inside h_i (Algorithm 1), not outside (eq. 3): the same trajectory. The paper decays beta
    "when norm of h plateaus" without a rule; ours, off by default: when norm(h) has not fallen below its lowest value
    for plateau_rounds rounds, beta is multiplied by beta_decay.
    """

    mu: float = 0.02
    beta: float = 0.96
    size_adaptive: bool = True
    beta_decay: float = 1.0
    plateau_rounds: int = 0

    name = "adabest"
    citation = "Varno et al., ECCV 2022, arXiv:2204.13170"
    weighting = "uniform"
    uniform = frozenset({"examples"})
    public = frozenset({"examples"})

    def __post_init__(self):
        not_negative(self, "mu")
        fraction(self, "beta", "beta_decay")
        choice(self, "size_adaptive", True, False)
        count(self, "plateau_rounds", low=0)

    def init_server(self, x, facts):
        zero = x.new_zeros(())
        plateau = Plateau(zero + self.beta, zero + torch.inf, zero)
        return Server(x, x, torch.zeros_like(x), Participations.none(x), plateau)

    def init_client(self, x):
        return Client(torch.zeros_like(x), x.new_zeros(()))

    def broadcast(self, server: Server):
        return Message(server.x, server.seen.mean_examples)

    def direction(self, step, local, msg: Message, client: Client, r):
        size = msg.mean_examples / r.examples if self.size_adaptive else 1.0
        return step.g - size * client.h, local

    def upload(self, y, local, msg: Message, client: Client, r):
        h = client.h / (r.t - client.t_last) + self.mu * (msg.x - y)
        return Upload(y - msg.x, r.examples), Client(h, r.t)

    def update(self, server: Server, mean: Upload, r):
        x_bar = server.x + mean.delta
        h = server.plateau.beta * (server.x_bar - x_bar)
        seen = server.seen.after(r.cohort, mean.examples)
        return Server(x_bar - h, x_bar, h, seen, self.next_beta(server.plateau, h))

    def next_beta(self, plateau: Plateau, h: Vector) -> Plateau:
        if self.plateau_rounds == 0:
            return plateau
        norm = h.norm()
        since = torch.where(norm < plateau.lowest, 0.0, plateau.since + 1)
        due = since >= self.plateau_rounds
        beta = torch.where(due, plateau.beta * self.beta_decay, plateau.beta)
        return Plateau(beta, torch.minimum(norm, plateau.lowest), torch.where(due, 0.0, since))

    def inference(self, server: Server):
        return server.x_bar
