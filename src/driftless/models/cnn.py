"""Convolutional networks without normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from driftless.models.keras_initialization import initialize_like_keras
from driftless.models.task import Task, require_classes, require_image


def cnn(task: Task) -> nn.Module:
    """Small images: 3x3 convolutions of 16 and 32 with pooling, 64 hidden units; 13,706 parameters for digits."""
    channels, height, width = require_image("cnn", task, least=4)
    return nn.Sequential(
        nn.Conv2d(channels, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), 64),
        nn.ReLU(),
        nn.Linear(64, require_classes("cnn", task)),
    )


def cnn_adabest(task: Task) -> nn.Module:
    """AdaBest, CIFAR-10: 5x5 convolutions of 64 and 64, then 394 and 192 hidden units; 815,892 parameters."""
    # 394 is the paper's number; FedDyn, whose network the paper cites, has 384.
    return _pooled_cnn("cnn-adabest", task, (64, 64), kernel=5, hidden=(394, 192))


def lenet(task: Task) -> nn.Module:
    """GHBM, CIFAR-10: 5x5 convolutions of 64 and 64, then 384 and 192 hidden units; 797,962 parameters."""
    return _pooled_cnn("lenet", task, (64, 64), kernel=5, hidden=(384, 192))


def cnn_fedgbo_cifar(task: Task) -> nn.Module:
    """FedGBO, CIFAR-100: 3x3 convolutions of 32 and 64, then 512 hidden units; 1,250,852 parameters."""
    return _pooled_cnn("cnn-fedgbo-cifar", task, (32, 64), kernel=3, hidden=(512,))


def cnn_fedgbo_femnist(task: Task) -> nn.Module:
    """FedGBO, FEMNIST: the layers of 'cnn-fedgbo-cifar'; 870,334 parameters."""
    return _pooled_cnn("cnn-fedgbo-femnist", task, (32, 64), kernel=3, hidden=(512,))


def cnn_emnist(task: Task) -> nn.Module:
    """Large cohorts, EMNIST: 3x3 convolutions of 32 and 64, 128 hidden units, dropout; 1,206,590 parameters."""
    channels, height, width = require_image("cnn-emnist", task, least=6)
    module = nn.Sequential(
        nn.Conv2d(channels, 32, kernel_size=3),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, require_classes("cnn-emnist", task)),
    )
    return initialize_like_keras(module)


def _pooled_cnn(name: str, task: Task, widths: Sequence[int], kernel: int, hidden: Sequence[int]) -> nn.Module:
    """Convolutions without padding, each with ReLU and 2x2 max-pooling, then fully connected layers."""
    least = 1
    for _ in widths:
        least = 2 * least + kernel - 1
    channels, *sides = require_image(name, task, least)
    layers: list[nn.Module] = []
    for before, after in pairwise((channels, *widths)):
        layers += [nn.Conv2d(before, after, kernel), nn.ReLU(), nn.MaxPool2d(2)]
        sides = [(side - kernel + 1) // 2 for side in sides]
    layers.append(nn.Flatten())
    units = (widths[-1] * sides[0] * sides[1], *hidden)
    for before, after in pairwise(units):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(units[-1], require_classes(name, task)))
