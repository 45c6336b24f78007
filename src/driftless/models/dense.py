"""Fully connected models. Those without hidden layers are convex problems under the usual losses."""

from __future__ import annotations

from math import prod

from torch import nn

from driftless.errors import InputError
from driftless.models.task import Task, require_classes


def linear(task: Task) -> nn.Module:
    """Linear regression without bias, one number per example; 13 parameters for 13 features."""
    if task.classes is not None:
        raise InputError(
            f"model 'linear' predicts one number, but this data has {task.classes} classes; use model 'logistic'."
        )
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(task.input_shape), 1, bias=False), nn.Flatten(0))  # [B, 1] -> [B]


def logistic(task: Task) -> nn.Module:
    """FedGBO, Sent140: multinomial logistic regression, one linear layer; 10,002 parameters for 5,000 words."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(task.input_shape), require_classes("logistic", task)))


def mlp(task: Task) -> nn.Module:
    """AdaBest, EMNIST-L: two hidden layers of 100 units with ReLU; 89,610 parameters."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(prod(task.input_shape), 100),
        nn.ReLU(),
        nn.Linear(100, 100),
        nn.ReLU(),
        nn.Linear(100, require_classes("mlp", task)),
    )
