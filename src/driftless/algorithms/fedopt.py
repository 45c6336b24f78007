"""Optimisers on the server: FedAvgM (arXiv:1909.06335, 2019), FedAdagrad, FedAdam, FedYogi (arXiv:2003.00295)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm, Delta, Scalar, Vector
from driftless.algorithms.checks import choice, decay, positive
from driftless.algorithms.states import Moments, Momentum

REDDI = "Reddi et al., ICLR 2021, arXiv:2003.00295"


class Server(NamedTuple):
    """Of FedAdagrad."""

    x: Vector
    v: Vector


@dataclass(frozen=True)
class FedAvgM(Algorithm):
    """FedAvg with heavy-ball momentum on the server.

    The server treats D = -mean(delta) as a gradient. Its momentum m adds up the pseudo-gradients of many rounds, which
    evens out that each cohort has other clients. The local steps are those of FedAvg, so the drift within a round
    stays.

    Paper: Hsu, Qi, Brown. Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification.
    2019, arXiv:1909.06335. As run in the large-cohort paper (Charles et al. 2021, arXiv:2106.07820).

    Equations:
        local step: d = g
        server: D = -mean(delta)
        server: m <- momentum*m + D
        server: x <- x - server_lr*m

    Hyper-parameters:
        server_lr: the server's step size; greater than 0. With constant D, a round moves by server_lr/(1 - momentum)
            times D in the end: ten times FedAvg's for 0.9. The large-cohort paper searched 0.001, 0.01, 0.1, 1 and 10
            and chose 1, on Shakespeare 0.1; the GHBM paper tried 1, 0.5 and 0.1 and chose 0.1 on three of four tasks.
            Too large, the loss swings or grows from round to round; too small, it falls slowly.
        momentum: the weight of the old m; from 0 to below 1. 0 is FedAvg. The large-cohort paper fixed 0.9; the GHBM
            paper tried 0.9 and 0.99 and chose 0.9. A larger value needs a smaller server_lr.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: none.
    """

    server_lr: float = 1.0
    momentum: float = 0.9

    name = "fedavgm"
    citation = "Hsu et al., 2019, arXiv:1909.06335"

    def __post_init__(self):
        positive(self, "server_lr")
        decay(self, "momentum")

    def init_server(self, x, facts):
        return Momentum(x, torch.zeros_like(x))

    def update(self, server: Momentum, mean: Delta, r):
        m = self.momentum * server.m - mean.delta
        return Momentum(server.x - self.server_lr * m, m)


@dataclass(frozen=True)
class FedAdagrad(Algorithm):
    """FedAvg with Adagrad on the server.

    The server treats D = -mean(delta) as a gradient. Each coordinate is divided by the root of the sum of its squares
    so far, so coordinates that seldom change move further, and all steps shrink with time.

    Paper: Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan. Adaptive Federated Optimization. ICLR 2021,
    arXiv:2003.00295. As run in the large-cohort paper (Charles et al. 2021, arXiv:2106.07820).

    Equations:
        local step: d = g
        server: D = -mean(delta)
        server: v <- v + D**2
        server: x <- x - server_lr*D/(sqrt(v) + eps)

    Hyper-parameters:
        server_lr: the server's step size, about the length of the first step of each coordinate; greater than 0. The
            large-cohort paper searched 0.001, 0.01, 0.1, 1 and 10 and chose 0.01 (CIFAR-100), 0.1 (EMNIST, Shakespeare)
            and 10 (Stack Overflow). Too large, the loss swings or grows from round to round; too small, it falls
            slowly.
        eps: is added to sqrt(v) and limits the step where v is small; greater than 0. The large-cohort paper fixed
            0.001. A smaller value lets coordinates with small pseudo-gradients move further.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: none.
    """

    server_lr: float = 0.1
    eps: float = 1e-3

    name = "fedadagrad"
    citation = REDDI

    def __post_init__(self):
        positive(self, "server_lr", "eps")

    def init_server(self, x, facts):
        return Server(x, torch.zeros_like(x))

    def update(self, server: Server, mean: Delta, r):
        D = -mean.delta
        v = server.v + D**2
        return Server(server.x - self.server_lr * D / (v.sqrt() + self.eps), v)


@dataclass(frozen=True)
class FedAdam(Algorithm):
    """FedAvg with Adam on the server.

    The server treats D = -mean(delta) as a gradient: m averages it over rounds, v its square, and each coordinate moves
    by about server_lr where its pseudo-gradient is well above eps. The local steps are those of FedAvg.

    Paper: Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan. Adaptive Federated Optimization. ICLR 2021,
    arXiv:2003.00295. As run in the large-cohort paper (Charles et al. 2021, arXiv:2106.07820), whose authors' public
    code corrects Adam's bias as Keras does.

    Equations:
        local step: d = g
        server: D = -mean(delta)
        server: m <- beta1*m + (1 - beta1)*D
        server: v <- beta2*v + (1 - beta2)*D**2
        server (bias_correction=keras): u = sqrt(1 - beta2**t)/(1 - beta1**t)*m/(sqrt(v) + eps)
        server (bias_correction=torch): u = m/(1 - beta1**t)/(sqrt(v/(1 - beta2**t)) + eps)
        server (bias_correction=none): u = m/(sqrt(v) + eps)
        server: x <- x - server_lr*u

    Hyper-parameters:
        server_lr: the server's step size, about how far a coordinate moves in a round at most; greater than 0. The
            large-cohort paper searched 0.001, 0.01, 0.1, 1 and 10 and chose 0.01 (CIFAR-100, Shakespeare), 0.001
            (EMNIST) and 1 (Stack Overflow); our search on digits (examples/digits.toml) tried 0.01, 0.03 and 0.1 and
            chose 0.03. Too large, the loss swings or grows from round to round; too small, it falls slowly.
        beta1: the weight of the old m; from 0 to below 1. The large-cohort paper fixed 0.9.
        beta2: the weight of the old v; from 0 to below 1. The large-cohort paper fixed 0.99.
        eps: is added to sqrt(v) and limits the step where v is small; greater than 0. The large-cohort paper fixed
            0.001. A smaller value lets coordinates with small pseudo-gradients move further.
        bias_correction: how the zeros with which m and v start are made up for; "keras", "torch" or "none". The three
            differ by where eps is added and in the first rounds.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: none. The published formula has no bias correction ("none"); the default is what was run.
    """

    server_lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3
    bias_correction: str = "keras"

    name = "fedadam"
    citation = REDDI

    def __post_init__(self):
        positive(self, "server_lr", "eps")
        decay(self, "beta1", "beta2")
        choice(self, "bias_correction", "keras", "torch", "none")

    def init_server(self, x, facts):
        return Moments(x, torch.zeros_like(x), torch.zeros_like(x))

    def update(self, server: Moments, mean: Delta, r):
        m, v = adam_moments(server, -mean.delta, self.beta1, self.beta2)
        b1, b2 = 1 - self.beta1**r.t, 1 - self.beta2**r.t
        if self.bias_correction == "keras":
            u = b2.sqrt() / b1 * m / (v.sqrt() + self.eps)
        elif self.bias_correction == "torch":
            u = (m / b1) / ((v / b2).sqrt() + self.eps)
        else:
            u = m / (v.sqrt() + self.eps)
        return Moments(server.x - self.server_lr * u, m, v)


@dataclass(frozen=True)
class FedYogi(Algorithm):
    """FedAvg with Yogi on the server: Adam whose second moment changes by at most (1 - beta2)*D**2.

    Adam forgets large pseudo-gradients at a rate that depends on v. Here v moves towards D**2 by a step whose size
    depends on D only, so it falls more slowly after a large round. There is no bias correction.

    Paper: Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan. Adaptive Federated Optimization. ICLR 2021,
    arXiv:2003.00295.

    Equations:
        start: v = 1e-6
        local step: d = g
        server: D = -mean(delta)
        server: m <- beta1*m + (1 - beta1)*D
        server: v <- v - (1 - beta2)*D**2*sign(v - D**2)
        server: x <- x - server_lr*m/(sqrt(v) + eps)

    Hyper-parameters:
        server_lr: the server's step size; greater than 0. Start at FedAdam's value, 0.01, and try a tenth and ten times
            of it. Too large, the loss swings or grows from round to round; too small, it falls slowly.
        beta1: the weight of the old m; from 0 to below 1. The default is FedAdam's, 0.9.
        beta2: one minus the speed of v; from 0 to below 1. The default is FedAdam's, 0.99.
        eps: is added to sqrt(v) and limits the step where v is small; greater than 0. The default is FedAdam's, 0.001.
            v starts at 1e-6, so sqrt(v) begins at 0.001, too.

    Vectors: 1 down, 1 up, none kept by the client.

    Deviations: none.
    """

    server_lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-3

    name = "fedyogi"
    citation = REDDI

    def __post_init__(self):
        positive(self, "server_lr", "eps")
        decay(self, "beta1", "beta2")

    def init_server(self, x, facts):
        return Moments(x, torch.zeros_like(x), torch.full_like(x, 1e-6))

    def update(self, server: Moments, mean: Delta, r):
        D = -mean.delta
        m = self.beta1 * server.m + (1 - self.beta1) * D
        v = server.v - (1 - self.beta2) * D**2 * torch.sign(server.v - D**2)
        return Moments(server.x - self.server_lr * m / (v.sqrt() + self.eps), m, v)


def adam_moments(server: Moments, D: Vector, beta1: float | Scalar, beta2: float | Scalar) -> tuple[Vector, Vector]:
    m = beta1 * server.m + (1 - beta1) * D
    v = beta2 * server.v + (1 - beta2) * D**2
    return m, v
