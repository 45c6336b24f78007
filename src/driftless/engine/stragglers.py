"""How long a round would take on real devices: the straggler model of the large-cohort paper, B.5.

A client with n examples takes X = alpha*n + E, E exponential with mean lambda*n; a round lasts as long as its slowest
client. Only the clients' computing is modelled, not the network, in units of the time for one example when alpha = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftless.errors import check_range
from driftless.random import stream

LONGEST = 1e100
"""So that a time is finite."""


def round_time(sizes: np.ndarray, alpha: float, lambda_: float, seed: int, t: int) -> float:
    """The simulated time of round t for a cohort whose clients have these numbers of examples."""
    return float(Stragglers(alpha, lambda_).times(sizes, seed, t).max(initial=0.0))


@dataclass(frozen=True)
class Stragglers:
    """alpha and lambda of the model."""

    alpha: float = 1.0
    lambda_: float = 1.0

    def __post_init__(self) -> None:
        check_range("run.straggler_alpha", self.alpha, 0, LONGEST)
        check_range("run.straggler_lambda", self.lambda_, 0, LONGEST)

    def times(self, sizes: np.ndarray, seed: int, t: int) -> np.ndarray:
        """Of each client of round t."""
        waiting = stream(seed, "stragglers", t).exponential(size=len(sizes))
        return sizes * (self.alpha + self.lambda_ * waiting)
