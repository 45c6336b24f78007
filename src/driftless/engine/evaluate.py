"""Losses and accuracies of a vector on the data sets of a federation, in large batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Vector
from driftless.data.federation import Federation
from driftless.data.inputs import Inputs, take
from driftless.engine.flat import FlatModel
from driftless.engine.losses import Loss, correct
from driftless.random import torch_stream

EVALUATION_BATCH = 2048
PERCENTILES = (5, 25, 50, 75, 95)


class Evaluation(NamedTuple):
    """What is evaluated: the same for all rounds of a run."""

    model: FlatModel
    loss: Loss
    federation: Federation
    seed: int

    @property
    def data(self) -> dict[str, tuple[Inputs, Tensor]]:
        """The data sets that are there: test set, clients' own test data, held-out validation clients."""
        federation = self.federation
        sets = {"client_test": federation.client_test, "validation": federation.validation}
        found = {name: (part.inputs, part.targets) for name, part in sets.items() if part is not None}
        return found if federation.test is None else {"test": federation.test, **found}

    def batches(self) -> list[tuple[str, int]]:
        """Data set and first example of every batch."""
        return [(name, i) for name, data in self.data.items() for i in range(0, len(data[1]), EVALUATION_BATCH)]


class BatchResult(NamedTuple):
    loss: Tensor
    """Summed over the examples."""
    correct: Tensor
    """How much of each example is classified correctly; empty for regression."""


@torch.no_grad()
def evaluate_batches(of: Evaluation, x: Vector, t: int, batches: Iterable[int]) -> dict[int, BatchResult]:
    """The results of these batches of `of.batches()`; several processes may share them."""
    of.model.resident.load(x)
    data, places = of.data, of.batches()
    results: dict[int, BatchResult] = {}
    for i in batches:
        name, first = places[i]
        rows = slice(first, first + EVALUATION_BATCH)
        inputs, targets = take(data[name][0], rows), data[name][1][rows]
        with torch_stream(of.seed, "evaluate", t, i):
            outputs = of.model.resident.evaluate(inputs)
            each = correct(of.loss, outputs, targets).double()
            loss = of.loss(outputs, targets.clone()).double() * len(targets)  # a loss may write over both
        results[i] = BatchResult(loss, each)
    return results


def evaluation_row(of: Evaluation, results: dict[int, BatchResult]) -> dict[str, float]:
    """test_loss and test_accuracy, validation_*; test_p5 ... test_p95, percentiles of the accuracy over test clients.

    Accuracies only for labels. Clients that never train are test clients too; a client's own test data come first.
    """
    federation, places = of.federation, of.batches()
    parts = {name: [results[i] for i, (at, _) in enumerate(places) if at == name] for name in of.data}
    row: dict[str, float] = {}
    for name in ("test", "validation"):
        if name in parts:
            number = len(of.data[name][1])
            each = torch.cat([part.correct for part in parts[name]])
            row[f"{name}_loss"] = float(sum(part.loss for part in parts[name])) / number
            if each.numel():
                row[f"{name}_accuracy"] = float(each.sum()) / number
    test_clients, name = federation.client_test, "client_test"
    if test_clients is None:
        test_clients, name = federation.validation, "validation"
    if test_clients is not None:
        accuracies = accuracy_by_client(torch.cat([part.correct for part in parts[name]]), test_clients)
        if len(accuracies):
            row |= {f"test_p{p}": float(np.percentile(accuracies, p)) for p in PERCENTILES}
    return row


def accuracy_by_client(each: Tensor, clients: Federation) -> np.ndarray:
    """The accuracy on each client's own examples, of the clients that have some; empty for regression."""
    if each.numel() == 0:
        return np.zeros(0)
    total = np.concatenate([[0.0], each.cumsum(0).numpy()])
    sizes = clients.sizes
    sums = total[clients.offsets[1:]] - total[clients.offsets[:-1]]
    return sums[sizes > 0] / sizes[sizes > 0]
