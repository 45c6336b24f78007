"""Loss and accuracy of a vector on a data set, in large batches."""

from __future__ import annotations

import torch
from torch import Tensor

from driftless.algorithm import Vector
from driftless.engine.flat import FlatModel
from driftless.engine.losses import Loss, correct

EVALUATION_BATCH = 2048


@torch.no_grad()
def evaluate(model: FlatModel, loss: Loss, x: Vector, data: tuple[Tensor, Tensor]) -> dict[str, float]:
    """{"loss": ..., "accuracy": ...}; accuracy only for labels."""
    inputs, targets = data
    totals: dict[str, float] = {"loss": 0.0}
    for start in range(0, len(inputs), EVALUATION_BATCH):
        batch, labels = inputs[start : start + EVALUATION_BATCH], targets[start : start + EVALUATION_BATCH]
        outputs = model.evaluate(x, batch)
        totals["loss"] += float(loss(outputs, labels)) * len(batch)
        if not labels.is_floating_point():
            totals["accuracy"] = totals.get("accuracy", 0.0) + float(correct(outputs, labels).sum())
    return {name: total / len(inputs) for name, total in totals.items()}
