"""RMSProp, SGD with momentum and Adam as FedGBO writes them: shared by FedGBO, Mime, MFL and AdaptiveFedOpt.

Mills, Hu, Min, Jin, Zheng, Wang. Accelerating Federated Learning with a Global Biased Optimiser. IEEE Transactions on
Computers 2022, arXiv:2108.09134: Table 1. m starts at 0 and v at 1 (the authors' public code), without bias correction.

    U  use          the direction from g and statistics that do not contain g
    T  track        the statistics after one more gradient G
    I  invert       the G for which U(G) = d, given the mean direction d
       use_tracked  the direction from g and statistics that already contain g

Deviation: Table 1 prints G instead of G^2 in the tracking of v, which would make v negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from driftless.algorithm import Algorithm, Vector
from driftless.algorithms.checks import choice, decay, positive
from driftless.algorithms.states import Statistics


class Optimizer(Protocol):
    def initial(self, x: Vector) -> Statistics: ...
    def use(self, g: Vector, s: Statistics) -> Vector: ...
    def track(self, s: Statistics, G: Vector) -> Statistics: ...
    def invert(self, d: Vector, s: Statistics) -> Vector: ...
    def use_tracked(self, g: Vector, s: Statistics) -> Vector: ...


@dataclass(frozen=True)
class RMSProp:
    beta: float
    eps: float

    def initial(self, x: Vector) -> Statistics:
        return Statistics(m=x.new_zeros(0), v=torch.ones_like(x))

    def use(self, g: Vector, s: Statistics) -> Vector:
        return g / (s.v.sqrt() + self.eps)

    def track(self, s: Statistics, G: Vector) -> Statistics:
        return Statistics(s.m, average(self.beta, s.v, G**2))

    def invert(self, d: Vector, s: Statistics) -> Vector:
        return d * (s.v.sqrt() + self.eps)

    use_tracked = use


@dataclass(frozen=True)
class SGDM:
    beta: float

    def initial(self, x: Vector) -> Statistics:
        return Statistics(m=torch.zeros_like(x), v=x.new_ones(0))

    def use(self, g: Vector, s: Statistics) -> Vector:
        return average(self.beta, s.m, g)

    def track(self, s: Statistics, G: Vector) -> Statistics:
        return Statistics(average(self.beta, s.m, G), s.v)

    def invert(self, d: Vector, s: Statistics) -> Vector:
        return (d - self.beta * s.m) / (1 - self.beta)

    def use_tracked(self, g: Vector, s: Statistics) -> Vector:
        return s.m


@dataclass(frozen=True)
class Adam:
    beta: float
    beta2: float
    eps: float

    def initial(self, x: Vector) -> Statistics:
        return Statistics(m=torch.zeros_like(x), v=torch.ones_like(x))

    def use(self, g: Vector, s: Statistics) -> Vector:
        return average(self.beta, s.m, g) / (s.v.sqrt() + self.eps)

    def track(self, s: Statistics, G: Vector) -> Statistics:
        return Statistics(average(self.beta, s.m, G), average(self.beta2, s.v, G**2))

    def invert(self, d: Vector, s: Statistics) -> Vector:
        return (d * (s.v.sqrt() + self.eps) - self.beta * s.m) / (1 - self.beta)

    def use_tracked(self, g: Vector, s: Statistics) -> Vector:
        return s.m / (s.v.sqrt() + self.eps)


def average(beta: float, old: Vector, new: Vector) -> Vector:
    return beta * old + (1 - beta) * new


class Hyper(Protocol):
    """The hyper-parameters by which an algorithm chooses one of the three."""

    @property
    def optimizer(self) -> str: ...
    @property
    def beta(self) -> float: ...
    @property
    def beta2(self) -> float: ...
    @property
    def eps(self) -> float: ...


OPTIMIZERS: dict[str, Callable[[Hyper], Optimizer]] = {
    "rmsprop": lambda h: RMSProp(h.beta, h.eps),
    "sgdm": lambda h: SGDM(h.beta),
    "adam": lambda h: Adam(h.beta, h.beta2, h.eps),
}


def optimizer_of(h: Hyper) -> Optimizer:
    return OPTIMIZERS[h.optimizer](h)


def check_optimizer(algorithm: Algorithm) -> None:
    choice(algorithm, "optimizer", *OPTIMIZERS)
    decay(algorithm, "beta", "beta2")
    positive(algorithm, "eps")
