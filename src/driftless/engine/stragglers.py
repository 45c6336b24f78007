"""How long a round would take on real devices: the straggler model of the large-cohort paper, B.5.

A client with n examples takes X = alpha*n + E, E exponential with mean lambda*n; a round lasts as long as its slowest
client. Only the clients' computing is modelled, not the network, in units of the time for one example when alpha = 1.
"""

from __future__ import annotations

import numpy as np

from driftless.random import stream


def round_time(sizes: np.ndarray, alpha: float, lambda_: float, seed: int, t: int) -> float:
    """The simulated time of round t for a cohort whose clients have these numbers of examples."""
    waiting = stream(seed, "stragglers", t).exponential(size=len(sizes))
    return float((sizes * (alpha + lambda_ * waiting)).max())
