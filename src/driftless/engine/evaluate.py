"""Loss and accuracy of a vector on a data set, in large batches."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Vector
from driftless.data.federation import Federation
from driftless.engine.flat import FlatModel
from driftless.engine.losses import Loss, hits

EVALUATION_BATCH = 2048


@torch.no_grad()
def accuracy_by_client(model: FlatModel, x: Vector, clients: Federation) -> np.ndarray:
    """The accuracy on each client's own examples, of the clients that have some; empty for regression."""
    right: list[Tensor] = []
    for start in range(0, len(clients.inputs), EVALUATION_BATCH):
        rows = slice(start, start + EVALUATION_BATCH)
        right.append(hits(model.evaluate(x, clients.inputs[rows]), clients.targets[rows]))
    each = torch.cat(right).double()
    if each.numel() == 0:
        return np.zeros(0)
    total = np.concatenate([[0.0], (each.flatten(1).mean(1) if each.dim() > 1 else each).cumsum(0).numpy()])
    sizes = clients.sizes
    sums = total[clients.offsets[1:]] - total[clients.offsets[:-1]]
    return sums[sizes > 0] / sizes[sizes > 0]


@torch.no_grad()
def evaluate(model: FlatModel, loss: Loss, x: Vector, data: tuple[Tensor, Tensor]) -> dict[str, float]:
    """{"loss": ..., "accuracy": ...}; accuracy only for labels."""
    inputs, targets = data
    totals: dict[str, float] = {"loss": 0.0}
    for start in range(0, len(inputs), EVALUATION_BATCH):
        batch, labels = inputs[start : start + EVALUATION_BATCH], targets[start : start + EVALUATION_BATCH]
        outputs = model.evaluate(x, batch)
        totals["loss"] += float(loss(outputs, labels)) * len(batch)
        right = hits(outputs, labels)
        if right.numel():
            each = right.flatten(1).double().mean(1) if right.dim() > 1 else right
            totals["accuracy"] = totals.get("accuracy", 0.0) + float(each.sum())
    return {name: total / len(inputs) for name, total in totals.items()}
