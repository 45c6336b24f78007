"""The small problems on which algorithms are compared, and how two runs are compared."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from driftless import Algorithm, EngineSettings, Federation, LocalTraining, Record, Result, simulate

SIZES = (5, 12, 8, 12, 5, 8, 12)
COHORTS = [[0, 3], [1, 5], [2, 6], [0], [1, 4], [0, 1, 2, 3, 4, 5, 6], [2, 3], [4, 6]]
"""Of unequal clients, some of which return. A run records its steps anew for each shape, so there are only a few."""
EVERYONE = [list(range(len(SIZES)))] * len(COHORTS)
LR = 0.05
MINIBATCHES = LocalTraining(lr=LR, steps=3, batch_size=3)  # smaller than any client
FULL_BATCHES = LocalTraining(lr=LR, steps=3, batch_size=None)


class Dot(nn.Module):
    """<w, z> with w the concatenation of several parameter tensors, which are the layers."""

    def __init__(self, w, parts=None):
        super().__init__()
        w = torch.as_tensor(np.asarray(w, dtype=float))
        self.parts = nn.ParameterList(nn.Parameter(part.clone()) for part in w.split(parts or len(w)))

    def forward(self, z):
        return z @ torch.cat(list(self.parts))


class Bench(NamedTuple):
    """A federation and a model with its x^0."""

    federation: Federation
    module: nn.Module

    @property
    def x0(self) -> Tensor:
        return parameters_to_vector(self.module.parameters()).detach().double()

    def gradient(self, i: int, x: Tensor) -> Tensor:
        """The full-batch gradient of client i at x, by plain backpropagation."""
        inputs, targets = self.federation.client(i)
        module = self.module.double()
        before = parameters_to_vector(module.parameters()).detach().clone()
        vector_to_parameters(x.clone(), module.parameters())
        outputs = module(inputs)
        if targets.is_floating_point():
            loss = ((outputs - targets) ** 2).sum() / (2 * len(targets))
        else:
            loss = F.cross_entropy(outputs, targets)
        found = torch.autograd.grad(loss, list(module.parameters()))
        vector_to_parameters(before, module.parameters())
        return parameters_to_vector(found)


def regression(sizes=SIZES, seed=3) -> Bench:
    """Linear regression in six dimensions, every client with its own weights and scales."""
    rng = np.random.default_rng(seed)
    clients = []
    for n in sizes:
        features = rng.normal(size=(n, 6)) * rng.uniform(0.5, 1.5, size=6)
        clients.append((features, features @ rng.normal(size=6) + 0.3 * rng.normal(size=n)))
    return Bench(Federation.from_clients(clients), Dot(np.linspace(-1.0, 1.5, 6), [4, 2]))


def mlp(sizes=SIZES, seed=4) -> Bench:
    """Three classes from five numbers by a network with one hidden layer."""
    rng = np.random.default_rng(seed)
    clients = []
    for i, n in enumerate(sizes):
        labels = rng.choice(3, size=n, p=np.roll([0.6, 0.3, 0.1], i))
        clients.append((rng.normal(size=(n, 5)) + labels[:, None] + 0.2 * i, labels))
    module = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    count = sum(p.numel() for p in module.parameters())
    vector_to_parameters(torch.from_numpy(0.5 * rng.normal(size=count)), module.parameters())
    return Bench(Federation.from_clients(clients, classes=3), module)


def run(algorithm: Algorithm | str, bench: Bench, **options) -> list[Record]:
    """The records of a run in double precision."""
    return run_with_result(algorithm, bench, **options)[0]


def run_with_result(algorithm: Algorithm | str, bench: Bench, **options) -> tuple[list[Record], Result]:
    settings: dict[str, Any] = {
        "cohort": COHORTS,
        "local": MINIBATCHES,
        "engine": "single",  # that blocks agree is a law of its own, for every algorithm
        "evaluate_every": 0,
    } | options
    settings["engine"] = EngineSettings(settings["engine"], settings.pop("block_size", None))
    if "rounds" not in settings:
        settings["rounds"] = len(settings["cohort"])
    records: list[Record] = []
    result = simulate(
        algorithm, bench.federation, bench.module, dtype=torch.float64, on_round=records.append, **settings
    )
    assert len(records) == settings["rounds"]
    assert not result.events
    return records, result


def assert_close(left, right, tolerance=1e-10) -> None:
    """Equal to the tolerance, absolutely; the values are asserted to be of a size where that means something."""
    left, right = torch.as_tensor(left, dtype=torch.float64), torch.as_tensor(right, dtype=torch.float64)
    assert left.shape == right.shape
    assert float(left.abs().max()) < 1000
    assert float((left - right).abs().max()) <= tolerance


def assert_same(left: list[Record], right: list[Record]) -> None:
    """The same cloud model and the same aggregate in every round."""
    assert len(left) == len(right) > 1
    for a, b in zip(left, right, strict=True):
        assert_close(a.x, b.x)
        assert_close(a.aggregate, b.aggregate)


def assert_different(left: list[Record], right: list[Record]) -> None:
    assert max(float((a.x - b.x).abs().max()) for a, b in zip(left, right, strict=True)) > 1e-4


on_both_problems = pytest.mark.parametrize("problem", [regression, mlp])
with_both_weightings = pytest.mark.parametrize(("problem", "weighting"), [(regression, "examples"), (mlp, "uniform")])
