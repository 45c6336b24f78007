"""Fully connected networks."""

from __future__ import annotations

from math import prod

from torch import nn

from driftless.models.task import Task, require_classes


def mlp(task: Task) -> nn.Module:
    """AdaBest, EMNIST-L: two hidden layers of 100 units with ReLU; 89,610 parameters."""
    classes = require_classes("mlp", task)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(prod(task.input_shape), 100),
        nn.ReLU(),
        nn.Linear(100, 100),
        nn.ReLU(),
        nn.Linear(100, classes),
    )
