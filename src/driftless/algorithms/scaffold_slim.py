"""SCAFFOLD/m, of the AdaBest paper. Varno et al., ECCV 2022, arXiv:2204.13170."""

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
    """SCAFFOLD/m: SCAFFOLD whose server rebuilds its control variate from the aggregate, so that clients upload only y.

    The change of the mean control variate is known from the mean of the client models: (x - x_bar)/(K*lr) is the mean
    corrected gradient. So one of SCAFFOLD's two uploaded vectors is not needed. h is SCAFFOLD's c.

    Paper: Varno, Saghayi, Rafiee Sevyeri, Gupta, Matwin, Havaei. AdaBest: Minimizing Client Drift in Federated Learning
    via Adaptive Bias Estimation. ECCV 2022, arXiv:2204.13170: Algorithm 1. Symbols of the paper: theta^{t-1} is x,
    theta_i^t is y, theta-bar^t is x_bar, h_i is c_i.

    Equations:
        local step: d = g - c_i + h
        client: c_i <- c_i - h + (x - y)/(K*lr)
        server: x_bar = mean(y)
        server (retention=exact): h <- (N - M)/N*h + M/(K_bar*lr*N)*(x - x_bar)
        server (retention=paper): h <- (N - 1)/N*h + M/(K_bar*lr*N)*(x - x_bar)
        server: x <- x_bar

    Hyper-parameters:
        retention: which part of h is kept; "exact" or "paper". "exact" gives SCAFFOLD's own trajectory when all clients
            take as many steps; "paper" is the printed factor, which is exact only for cohorts of one client and
            otherwise keeps too much.

    Vectors: 2 down, 1 up, 1 kept by the client.

    Deviations: the paper prints the factor (N - 1)/N, exact only for M = 1, and repeats the server line as the client
    line; retention="exact" gives SCAFFOLD's own trajectory, "paper" the printed factor.
    """

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
