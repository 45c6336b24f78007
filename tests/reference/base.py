"""The regression problem and the few helpers that every reference uses.

Common arguments of the references:

``problem``    the clients' data
``x0``         the initial cloud model, a flat vector
``cohorts``    a list over rounds of lists of client ids
``steps``      K_i: an int, a function (t, i) -> K_i, or a nested mapping steps[t][i]; rounds t count from 1
``lr``         the local learning rate: a float or a function t -> lr
``weighting``  "examples", "uniform" or None for the algorithm's default
``clip``       None, or a dict(quantile=0.8, lr=0.2, initial=1.0) for adaptive clipping

Every reference returns one dict per round: "x" (cloud model after the round), "aggregate" (x_bar, the weighted mean of
the round's client models, of the clipped ones when clipping), "rho" (the clipping norm after the round, None without
clipping) and the algorithm's own state after the round.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Problem:
    """f_i(w) = 1/(2 n_i) ||X_i w - y_i||^2 for every client i."""

    clients: list[tuple[np.ndarray, np.ndarray]]
    layers: list[slice]
    weight_decay: float = 0.0
    N: int = field(init=False)

    def __post_init__(self):
        self.N = len(self.clients)

    def examples(self, i):
        """n_i, the number of examples of client i."""
        return len(self.clients[i][1])

    def gradient(self, i, w):
        """The full-batch gradient of client i at w, weight decay included."""
        features, targets = self.clients[i]
        residual = features @ w - targets
        return features.T @ residual / len(targets) + self.weight_decay * w


def steps_at(steps, t, i):
    """K_i of round t."""
    if callable(steps):
        return steps(t, i)
    if isinstance(steps, (int, np.integer)):
        return steps
    return steps[t][i]


def lr_at(lr, t):
    """The local learning rate of round t."""
    if callable(lr):
        return lr(t)
    return lr


def mean_steps(steps, t, cohort):
    """K_bar: the plain mean of K_i over the cohort."""
    total = 0
    for i in cohort:
        total = total + steps_at(steps, t, i)
    return total / len(cohort)


def weights_of(problem, cohort, weighting):
    """The (not normalised) weight of every client of the cohort."""
    if weighting == "examples":
        return [problem.examples(i) for i in cohort]
    if weighting == "uniform":
        return [1 for _ in cohort]
    raise ValueError(f"unknown weighting {weighting!r}")


def weighted_mean(values, weights):
    """sum_i w_i u_i / sum_i w_i."""
    total = 0.0
    for value, weight in zip(values, weights, strict=True):
        total = total + weight * value
    return total / sum(weights)


def uniform_mean(values):
    """sum_i u_i / number of values."""
    total = 0.0
    for value in values:
        total = total + value
    return total / len(values)


def initial_rho(clip):
    """The clipping norm of the first round; None without clipping."""
    if clip is None:
        return None
    return clip.get("initial", 1.0)


def clip_deltas(deltas, rho, clip):
    """The clipped deltas of a round and the clipping norm of the next round."""
    if clip is None:
        return deltas, rho
    quantile = clip.get("quantile", 0.8)
    rate = clip.get("lr", 0.2)
    clipped = []
    below = []
    for delta in deltas:
        norm = np.linalg.norm(delta)
        below.append(1.0 if norm <= rho else 0.0)
        if norm == 0:
            clipped.append(delta)
        else:
            clipped.append(delta * min(1.0, rho / norm))
    return clipped, rho * np.exp(-rate * (uniform_mean(below) - quantile))


def sgd_deltas(problem, x, cohort, steps, eta, t):
    """Plain local SGD: y <- y - lr * g, K_i times from x; delta = y - x for every client of the cohort."""
    deltas = []
    for i in cohort:
        y = x.copy()
        for _ in range(steps_at(steps, t, i)):
            y = y - eta * problem.gradient(i, y)
        deltas.append(y - x)
    return deltas
