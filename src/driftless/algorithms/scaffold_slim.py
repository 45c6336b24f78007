"""SCAFFOLD/m: SCAFFOLD whose server rebuilds its control variate from the aggregate, so that clients upload only y.

Varno, Saghayi, Rafiee Sevyeri, Gupta, Matwin, Havaei. AdaBest: Minimizing Client Drift in Federated Learning via
Adaptive Bias Estimation. ECCV 2022, arXiv:2204.13170: Algorithm 1.

    d    = g - c_i + h
    c_i' = c_i - h + (x - y)/(K*lr)
    h <- (N-M)/N*h + M/(K_bar*lr*N)*(x - x_bar);  x <- x_bar

Symbols: theta^{t-1} -> x, theta_i^t -> y, theta-bar^t -> x_bar, h_i -> c_i.
Vectors: ScaffoldSlim 2 down, 1 up, 1 kept by the client.
Deviations: the paper prints the factor (N-1)/N, exact only for M = 1, and repeats the server line as the client line;
retention="exact" gives SCAFFOLD's own trajectory, "paper" the printed factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Delta, Vector
from driftless.algorithms.checks import choice
from driftless.algorithms.states import Control


class Server(NamedTuple):
    """Server state and message."""

    x: Vector
    h: Vector


@dataclass(frozen=True)
class ScaffoldSlim(Algorithm):
    """SCAFFOLD/m: the server rebuilds its control variate from the aggregate."""

    retention: str = "exact"

    name = "scaffold-slim"
    citation = "Varno et al., ECCV 2022, arXiv:2204.13170 (SCAFFOLD/m)"
    weighting = "uniform"

    def __post_init__(self):
        choice(self, "retention", "exact", "paper")

    def init_server(self, x, facts):
        return Server(x, torch.zeros_like(x))

    def init_client(self, x):
        return Control(torch.zeros_like(x))

    def broadcast(self, server: Server):
        return server

    def direction(self, step, local, msg: Server, client: Control, r):
        return step.g - client.c + msg.h, local

    def upload(self, y, local, msg: Server, client: Control, r):
        c = client.c - msg.h + (msg.x - y) / (r.steps * r.lr)
        return Delta(y - msg.x), Control(c)

    def update(self, server: Server, mean: Delta, r):
        leaving = r.cohort if self.retention == "exact" else 1
        kept = (r.clients - leaving) / r.clients
        h = kept * server.h - r.cohort / (r.steps * r.lr * r.clients) * mean.delta
        return Server(server.x + mean.delta, h)
