"""RMSProp, SGD with momentum and Adam as FedGBO writes them: a rule for using statistics, one for tracking them, and
the inverse that recovers the mean gradient from a model difference. Shared by FedGBO, Mime, MFL and AdaptiveFedOpt.

Mills, Hu, Min, Jin, Zheng, Wang. Accelerating Federated Learning with a Global Biased Optimiser. IEEE Transactions on
Computers 2022, arXiv:2108.09134: Table 1. m starts at 0 and v at 1 (the authors' public code), without bias correction.

    U (use)      rmsprop  d = g/(sqrt(v)+eps)
                 sgdm     d = beta*m + (1-beta)*g
                 adam     d = (beta*m + (1-beta)*g)/(sqrt(v)+eps)
    T (track)    m <- beta*m + (1-beta)*G;  v <- beta*v + (1-beta)*G^2       (beta2 for Adam's v)
    I (invert)   the G for which U(G) = d, given the mean direction d

Deviation: Table 1 prints G instead of G^2 in the tracking of v, which would make v negative.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch

from driftless.algorithm import Algorithm, Vector
from driftless.algorithms.checks import choice, decay, positive


class Hyper(Protocol):
    """The hyper-parameters that every algorithm of this family has."""

    @property
    def optimizer(self) -> str: ...
    @property
    def beta(self) -> float: ...
    @property
    def beta2(self) -> float: ...
    @property
    def eps(self) -> float: ...


class Statistics(NamedTuple):
    """A vector that the optimiser does not use is empty, so that it costs no memory and no communication."""

    m: Vector
    v: Vector


def check(algorithm: Algorithm) -> None:
    choice(algorithm, "optimizer", "rmsprop", "sgdm", "adam")
    decay(algorithm, "beta", "beta2")
    positive(algorithm, "eps")


def initial(h: Hyper, x: Vector) -> Statistics:
    m = x.new_zeros(0) if h.optimizer == "rmsprop" else torch.zeros_like(x)
    v = x.new_ones(0) if h.optimizer == "sgdm" else torch.ones_like(x)
    return Statistics(m, v)


def use(h: Hyper, g: Vector, s: Statistics) -> Vector:
    """U: the direction of one step with fixed statistics."""
    if h.optimizer == "rmsprop":
        return g / (s.v.sqrt() + h.eps)
    d = h.beta * s.m + (1 - h.beta) * g
    return d if h.optimizer == "sgdm" else d / (s.v.sqrt() + h.eps)


def track(h: Hyper, s: Statistics, G: Vector) -> Statistics:
    """T: the statistics after one more gradient."""
    beta_v = h.beta2 if h.optimizer == "adam" else h.beta
    m = s.m if h.optimizer == "rmsprop" else h.beta * s.m + (1 - h.beta) * G
    v = s.v if h.optimizer == "sgdm" else beta_v * s.v + (1 - beta_v) * G**2
    return Statistics(m, v)


def invert(h: Hyper, d: Vector, s: Statistics) -> Vector:
    """I: the gradient whose direction under U is d."""
    if h.optimizer == "rmsprop":
        return d * (s.v.sqrt() + h.eps)
    d = d if h.optimizer == "sgdm" else d * (s.v.sqrt() + h.eps)
    return (d - h.beta * s.m) / (1 - h.beta)


def step_with(h: Hyper, g: Vector, s: Statistics) -> Vector:
    """The direction from statistics that already contain g: m, g/(sqrt(v)+eps) or m/(sqrt(v)+eps)."""
    if h.optimizer == "sgdm":
        return s.m
    return (g if h.optimizer == "rmsprop" else s.m) / (s.v.sqrt() + h.eps)
