"""FedAvg, FedProx and SCAFFOLD (option 2) whose clients take steps with momentum: v <- momentum*v + d; y <- y - lr*v.

v starts at 0 in each round. The rest is as in the references without it.
"""

from __future__ import annotations

import numpy as np

from .base import lr_at, steps_at, uniform_mean, weighted_mean, weights_of


def fedavg(problem, x0, cohorts, steps, lr, momentum, weighting="examples"):
    return fedprox(problem, x0, cohorts, steps, lr, momentum, weighting, mu=0.0)


def fedprox(problem, x0, cohorts, steps, lr, momentum, weighting="uniform", mu=0.01):
    """d = g + mu*(y - x); x <- x + mean(delta)."""
    x = np.array(x0, dtype=float)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        for i in cohort:
            y = x.copy()
            v = np.zeros_like(x)
            for _ in range(steps_at(steps, t, i)):
                v = momentum * v + problem.gradient(i, y) + mu * (y - x)
                y = y - eta * v
            deltas.append(y - x)
        x = x + weighted_mean(deltas, weights_of(problem, cohort, weighting))
        history.append({"x": x})
    return history


def scaffold(problem, x0, cohorts, steps, lr, momentum, weighting="uniform"):
    """d = g - c_i + c; c_i' = c_i - c + (x - y)/(K*lr), in which the momentum stays."""
    x = np.array(x0, dtype=float)
    c = np.zeros_like(x)
    c_i = np.zeros((problem.N, len(x)))
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        control_changes = []
        for i in cohort:
            k_i = steps_at(steps, t, i)
            y = x.copy()
            v = np.zeros_like(x)
            for _ in range(k_i):
                v = momentum * v + problem.gradient(i, y) - c_i[i] + c
                y = y - eta * v
            c_new = c_i[i] - c + (x - y) / (k_i * eta)
            deltas.append(y - x)
            control_changes.append(c_new - c_i[i])
            c_i[i] = c_new
        x = x + weighted_mean(deltas, weights_of(problem, cohort, weighting))
        c = c + len(cohort) / problem.N * uniform_mean(control_changes)
        history.append({"x": x})
    return history
