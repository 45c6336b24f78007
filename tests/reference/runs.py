"""The problem on which the references are compared with one another, and how."""

from __future__ import annotations

import numpy as np

from .base import Problem

SIZE = 6
LR = 0.05
OPTIMIZERS = ["rmsprop", "sgdm", "adam"]
COHORTS = [[0, 3], [1, 4, 5], [3, 2], [0, 1, 2, 5], [4, 0], [3], [2, 4, 5], [1, 3]]
EVERYONE = [list(range(6))] * 8
UNEQUAL_STEPS = {t: {i: 1 + (2 * t + 3 * i) % 4 for i in range(6)} for t in range(1, 9)}


def random_problem(examples=(3, 20, 7, 11, 5, 16), weight_decay=0.0):
    generator = np.random.default_rng(20)
    clients = []
    for n in examples:
        features = generator.normal(size=(n, SIZE)) * generator.uniform(0.5, 1.5, size=SIZE)
        targets = features @ generator.normal(size=SIZE) + generator.normal(size=n)
        clients.append((features, targets))
    return Problem(clients=clients, layers=[slice(0, 4), slice(4, 6)], weight_decay=weight_decay)


PROBLEM = random_problem(weight_decay=0.01)
START = np.linspace(-1.0, 1.5, SIZE)


def run(algorithm, cohorts=None, steps=3, lr=LR, problem=PROBLEM, **hyper):
    history = algorithm(problem, START, COHORTS if cohorts is None else cohorts, steps, lr, **hyper)
    assert all(np.isfinite(record["x"]).all() for record in history)
    return history


def assert_same(left, right, keys=("x", "aggregate")):
    assert len(left) == len(right) > 0
    for a, b in zip(left, right, strict=True):
        for key in keys:
            np.testing.assert_allclose(a[key], b[key], rtol=0, atol=1e-12)


def assert_different(left, right):
    assert max(np.abs(a["x"] - b["x"]).max() for a, b in zip(left, right, strict=True)) > 1e-4


def decaying(t):
    return LR * 0.9 ** (t - 1)
