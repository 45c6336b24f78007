"""Fully connected networks."""

from __future__ import annotations

from math import prod

from torch import nn

from driftless.models.suits import need_classes


def mlp(input_shape: tuple[int, ...], classes: int | None) -> nn.Module:
    """Two hidden layers of 100 units with ReLU, as in AdaBest."""
    classes = need_classes("mlp", classes)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(prod(input_shape), 100),
        nn.ReLU(),
        nn.Linear(100, 100),
        nn.ReLU(),
        nn.Linear(100, classes),
    )
