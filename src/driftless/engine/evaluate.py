"""Loss and accuracy of a vector on a data set, in large batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Vector
from driftless.data.federation import Federation
from driftless.engine.flat import FlatModel
from driftless.engine.losses import Loss, right

EVALUATION_BATCH = 2048


@torch.no_grad()
def accuracy_by_client(model: FlatModel, x: Vector, clients: Federation) -> np.ndarray:
    """The accuracy on each client's own examples, of the clients that have some; empty for regression."""
    each = torch.cat([right(*batch).double() for batch in in_batches(model, x, (clients.inputs, clients.targets))])
    if each.numel() == 0:
        return np.zeros(0)
    total = np.concatenate([[0.0], each.cumsum(0).numpy()])
    sizes = clients.sizes
    sums = total[clients.offsets[1:]] - total[clients.offsets[:-1]]
    return sums[sizes > 0] / sizes[sizes > 0]


@torch.no_grad()
def evaluate(model: FlatModel, loss: Loss, x: Vector, data: tuple[Tensor, Tensor]) -> dict[str, float]:
    """{"loss": ..., "accuracy": ...}; accuracy only for labels."""
    totals: dict[str, float] = {"loss": 0.0}
    for outputs, targets in in_batches(model, x, data):
        totals["loss"] += float(loss(outputs, targets)) * len(targets)
        each = right(outputs, targets).double()
        if each.numel():
            totals["accuracy"] = totals.get("accuracy", 0.0) + float(each.sum())
    return {name: total / len(data[0]) for name, total in totals.items()}


def in_batches(model: FlatModel, x: Vector, data: tuple[Tensor, Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Outputs and targets, a large batch at a time."""
    for inputs, targets in zip(*(part.split(EVALUATION_BATCH) for part in data), strict=True):
        yield model.evaluate(x, inputs), targets
