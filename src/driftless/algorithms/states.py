"""States, messages and uploads that algorithms of several files share. What only one file uses is defined there."""

from __future__ import annotations

from typing import NamedTuple

from driftless.algorithm import Vector


class Momentum(NamedTuple):
    """Server state or message: the model and its momentum."""

    x: Vector
    m: Vector


class Moments(NamedTuple):
    """Server state: the model, and the first and second moment of its pseudo-gradients."""

    x: Vector
    m: Vector
    v: Vector


class Statistics(NamedTuple):
    """What an optimiser tracks. A vector that it does not use is empty: it costs no memory and no communication."""

    m: Vector
    v: Vector


class Biased(NamedTuple):
    """Server state and message: the model and the statistics of the optimiser."""

    x: Vector
    statistics: Statistics


class Control(NamedTuple):
    """Client state: its control variate."""

    c: Vector


class ControlledDelta(NamedTuple):
    """Upload: the progress of the client's model and of its control variate."""

    delta: Vector
    delta_c: Vector


class GradientSum(NamedTuple):
    """Local state: the sum of the minibatch gradients so far."""

    g_sum: Vector
