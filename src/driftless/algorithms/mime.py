"""Mime, MimeLite, MimeMom and MimeLiteMom. Karimireddy et al., NeurIPS 2021, arXiv:2008.03606."""

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
    """Clients use the server's optimiser statistics, which the server tracks with their full gradients at x.

    The clients imitate a centralised optimiser: its statistics, m and v, are fixed for the round and come from
    gradients at the server's model, where no client has drifted. grad(f_i, x) is the full-batch gradient of client i at
    x; c is the cohort's mean of it.

    Paper: Karimireddy, Jaggi, Kale, Mohri, Reddi, Stich, Suresh. Breaking the Centralized Barrier for Cross-Device
    Federated Learning (Mime). NeurIPS 2021, arXiv:2008.03606. With the rules U and T of the FedGBO paper (Mills et al.
    2022, arXiv:2108.09134).

    Equations:
        start: v = 1
        local step (optimizer=rmsprop): d = g/(sqrt(v) + eps)
        local step (optimizer=sgdm): d = beta*m + (1 - beta)*g
        local step (optimizer=adam): d = (beta*m + (1 - beta)*g)/(sqrt(v) + eps)
        server: c = mean(grad(f_i, x))
        server (optimizer=rmsprop): v <- beta*v + (1 - beta)*c**2
        server (optimizer=sgdm): m <- beta*m + (1 - beta)*c
        server (optimizer=adam): m <- beta*m + (1 - beta)*c
        server (optimizer=adam): v <- beta2*v + (1 - beta2)*c**2
        server: x <- mean(y)

    Hyper-parameters:
        optimizer: the rule of the local steps; "rmsprop", "sgdm" or "adam". In the FedGBO paper their best local
            learning rates differ by orders of magnitude: search anew for each.
        beta: the weight of the old statistics: of m, for RMSProp of v; from 0 to below 1. The FedGBO paper searched
            0.3, 0.6, 0.9, 0.99, 0.999 and 0.9999 and chose, with sgdm, 0.9 on CIFAR-100 and Shakespeare, 0.99 on
            Sent140, 0.9 or 0.99 on FEMNIST. The statistics average over about 1/(1 - beta) tracked gradients: too
            large, they are out of date; too small, they are noisy.
        beta2: the weight of the old v, for Adam only; from 0 to below 1. The FedGBO paper fixed 0.99.
        eps: is added to sqrt(v) and limits the step where v is small, for RMSProp and Adam; greater than 0. The FedGBO
            paper found a value as large as 0.001 necessary for stable convergence.

    Vectors: 2 down, 2 up, none kept by the client. 3 down with Adam.

    Deviations: none. As for FedGBO, v starts at 1 and is tracked with squares.
    """

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
    """MimeLite whose local gradients are also corrected, as in SVRG, by the cohort's mean gradient at x.

    g - g_x + c replaces the client's own gradient at x by the cohort's, so the first local steps of all clients agree;
    g_x is the gradient of the same minibatch at x. c is known before the local steps: the clients send their full
    gradients first and get c back, one more exchange in each round.

    Paper: Karimireddy, Jaggi, Kale, Mohri, Reddi, Stich, Suresh. Breaking the Centralized Barrier for Cross-Device
    Federated Learning (Mime). NeurIPS 2021, arXiv:2008.03606. With the rules U and T of the FedGBO paper (Mills et al.
    2022, arXiv:2108.09134).

    Equations:
        start: v = 1
        server: c = mean(grad(f_i, x))
        local step: g_c = g - g_x + c
        local step (optimizer=rmsprop): d = g_c/(sqrt(v) + eps)
        local step (optimizer=sgdm): d = beta*m + (1 - beta)*g_c
        local step (optimizer=adam): d = (beta*m + (1 - beta)*g_c)/(sqrt(v) + eps)
        server (optimizer=rmsprop): v <- beta*v + (1 - beta)*c**2
        server (optimizer=sgdm): m <- beta*m + (1 - beta)*c
        server (optimizer=adam): m <- beta*m + (1 - beta)*c
        server (optimizer=adam): v <- beta2*v + (1 - beta2)*c**2
        server: x <- mean(y)

    Hyper-parameters:
        optimizer: the rule of the local steps; "rmsprop", "sgdm" or "adam". In the FedGBO paper their best local
            learning rates differ by orders of magnitude: search anew for each.
        beta: the weight of the old statistics: of m, for RMSProp of v; from 0 to below 1. The FedGBO paper searched
            0.3, 0.6, 0.9, 0.99, 0.999 and 0.9999 for MimeLite, with which it compares, and mostly chose 0.9 or 0.99.
            The statistics average over about 1/(1 - beta) tracked gradients: too large, they are out of date; too
            small, they are noisy.
        beta2: the weight of the old v, for Adam only; from 0 to below 1. The FedGBO paper fixed 0.99.
        eps: is added to sqrt(v) and limits the step where v is small, for RMSProp and Adam; greater than 0. The FedGBO
            paper found a value as large as 0.001 necessary for stable convergence.

    Vectors: 3 down, 2 up, none kept by the client. 4 down with Adam.

    Deviations: none. As for FedGBO, v starts at 1 and is tracked with squares.
    """

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
    """MimeLite with momentum, in the form of the GHBM paper.

    The server's momentum m is fixed during the round and enters every local step; it is tracked with c, the cohort's
    mean of grad(f_i, x), the clients' full-batch gradients at x, where no client has drifted.

    Paper: Karimireddy, Jaggi, Kale, Mohri, Reddi, Stich, Suresh. Breaking the Centralized Barrier for Cross-Device
    Federated Learning (Mime). NeurIPS 2021, arXiv:2008.03606. As in the GHBM paper (Zaccone et al. 2024,
    arXiv:2311.18578).

    Equations:
        local step (form=heavy-ball): d = beta*m + g
        local step (form=ema): d = beta*m + (1 - beta)*g
        server: c = mean(grad(f_i, x))
        server (form=heavy-ball): m <- beta*m + c
        server (form=ema): m <- beta*m + (1 - beta)*c
        server: x <- x + server_lr*mean(delta)

    Hyper-parameters:
        beta: the weight of the old momentum; from 0 to below 1. The GHBM paper tried 0.9, 0.99 and, with a ResNet-20,
            0.95, and chose 0.9. With form="heavy-ball" a local step tends to 1/(1 - beta) times the gradient: a larger
            beta needs a smaller learning rate.
        server_lr: how far the server moves towards the mean of the client models; greater than 0. The GHBM paper tried
            1 to 0.1 and chose 0.1 on CIFAR and Shakespeare, 1 on StackOverflow. Too large, the loss swings or grows
            from round to round; too small, it falls slowly.
        form: whether new gradients are weighed by 1 or by 1 - beta; "heavy-ball" or "ema". With "ema" all steps are
            shorter, by the factor 1 - beta; a larger learning rate makes up for it.

    Vectors: 2 down, 2 up, none kept by the client.

    Deviations: none.
    """

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
    """Mime with momentum, in the form of the GHBM paper.

    MimeLiteMom whose local gradients are corrected, as in SVRG: g_x is the gradient of the same minibatch at x, c the
    cohort's mean of grad(f_i, x), the full-batch gradients at x. c is known before the local steps: the clients send
    their full gradients first and get c back, one more exchange in each round.

    Paper: Karimireddy, Jaggi, Kale, Mohri, Reddi, Stich, Suresh. Breaking the Centralized Barrier for Cross-Device
    Federated Learning (Mime). NeurIPS 2021, arXiv:2008.03606. As in the GHBM paper (Zaccone et al. 2024,
    arXiv:2311.18578).

    Equations:
        server: c = mean(grad(f_i, x))
        local step (form=heavy-ball): d = beta*m + (g - g_x + c)
        local step (form=ema): d = beta*m + (1 - beta)*(g - g_x + c)
        server (form=heavy-ball): m <- beta*m + c
        server (form=ema): m <- beta*m + (1 - beta)*c
        server: x <- x + server_lr*mean(delta)

    Hyper-parameters:
        beta: the weight of the old momentum; from 0 to below 1. The GHBM paper tried 0.9, 0.99 and, on CIFAR, 0.95, and
            chose 0.9. With form="heavy-ball" a local step tends to 1/(1 - beta) times the gradient: a larger beta needs
            a smaller learning rate.
        server_lr: how far the server moves towards the mean of the client models; greater than 0. The GHBM paper tried
            1 to 0.1 and chose 0.1 on CIFAR and Shakespeare, 1 on StackOverflow; with 0.1 % of the clients of
            iNaturalist in a round it found no value with which MimeMom converged. Too large, the loss swings or grows
            from round to round; too small, it falls slowly.
        form: whether new gradients are weighed by 1 or by 1 - beta; "heavy-ball" or "ema". With "ema" all steps are
            shorter, by the factor 1 - beta; a larger learning rate makes up for it.

    Vectors: 3 down, 2 up, none kept by the client.

    Deviations: none.
    """

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
