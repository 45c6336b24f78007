"""A small task for every model, and the task it was published with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from driftless.models import MODELS
from driftless.models.task import Task

PUBLISHED: dict[str, Task] = {
    "linear": Task((13,), None),
    "logistic": Task((5000,), 2),  # Sent140
    "mlp": Task((1, 28, 28), 10),  # EMNIST-L
    "cnn": Task((1, 8, 8), 10),
    "cnn-adabest": Task((3, 32, 32), 10),
    "cnn-fedgbo-cifar": Task((3, 32, 32), 100),
    "cnn-fedgbo-femnist": Task((1, 28, 28), 62),
    "cnn-emnist": Task((1, 28, 28), 62),
    "lenet": Task((3, 32, 32), 10),
    "resnet-18": Task((3, 24, 24), 100),
    "resnet-20": Task((3, 32, 32), 10),
    "mobilenet-v2": Task((3, 224, 224), 1000),
    "vit-b16": Task((3, 224, 224), 1000),
    "gru-fedgbo": Task((80,), 79),
    "lstm-ghbm": Task((80,), 80),
    "lstm-large-cohort": Task((80,), 90, (80,)),
    "lstm-stackoverflow": Task((20,), 10_004, (20,)),
}
SMALL: dict[str, Task] = PUBLISHED | {
    "logistic": Task((1, 8, 8), 7),
    "mlp": Task((1, 8, 8), 7),
    "cnn": Task((1, 8, 8), 7),
    "cnn-adabest": Task((1, 16, 16), 7),
    "cnn-fedgbo-cifar": Task((3, 10, 10), 7),
    "cnn-fedgbo-femnist": Task((1, 10, 10), 7),
    "cnn-emnist": Task((1, 8, 8), 7),
    "lenet": Task((1, 16, 16), 7),
    "resnet-18": Task((3, 8, 8), 7),
    "resnet-20": Task((3, 8, 8), 7),
    "mobilenet-v2": Task((3, 8, 8), 7),
    "vit-b16": Task((3, 16, 16), 7),
    "gru-fedgbo": Task((4,), 7),
    "lstm-ghbm": Task((4,), 7),
    "lstm-large-cohort": Task((4,), 7, (4,)),
    "lstm-stackoverflow": Task((4,), 7, (4,)),
}
LIGHT = [name for name in MODELS if name != "vit-b16"]
"""86 million parameters are too many to compute with here: tests take a small transformer of the same class."""
CLASSIFIERS = [name for name in MODELS if name != "linear"]
TEXT = [name for name in MODELS if name.startswith(("gru", "lstm"))]
IMAGES = [name for name in MODELS if name not in TEXT and name not in ("linear", "logistic", "mlp")]


def inputs_for(name: str, task: Task, *batch: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if name in TEXT:
        return torch.randint(task.classes or 0, (*batch, *task.input_shape), generator=generator)
    return torch.randn(*batch, *task.input_shape, generator=generator)


def without_memory(name: str, task: Task) -> nn.Module:
    """Shapes but no values: as quick for a large model as for a small one."""
    with torch.device("meta"):
        return MODELS[name](task)


def trainable(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
