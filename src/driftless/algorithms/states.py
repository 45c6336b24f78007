"""States, messages and uploads that algorithms of several files share. What only one file uses is defined there."""

from __future__ import annotations

from typing import NamedTuple

from driftless.algorithm import Scalar, Vector


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


class Participations(NamedTuple):
    """Server state: how often clients took part so far, and the mean of their examples, each time counted."""

    number: Scalar
    mean_examples: Scalar

    @classmethod
    def none(cls, x: Vector) -> Participations:
        return cls(x.new_zeros(()), x.new_zeros(()))

    def after(self, cohort: int, examples: Scalar) -> Participations:
        """With a round more, of so many clients with so many examples on average."""
        number = self.number + cohort
        return Participations(number, self.mean_examples + cohort / number * (examples - self.mean_examples))
