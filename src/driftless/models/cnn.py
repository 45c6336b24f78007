"""Convolutional networks. No normalisation layers: they would tie a client's result to its batches."""

from __future__ import annotations

from torch import nn

from driftless.errors import InputError
from driftless.models.suits import need_classes


def cnn(input_shape: tuple[int, ...], classes: int | None) -> nn.Module:
    """Two 3x3 convolutions (16, 32 channels) with pooling, then 64 hidden units, for images."""
    if len(input_shape) != 3 or min(input_shape[1:]) < 4:
        raise InputError(
            f"model 'cnn' needs images of shape (channels, height, width), height and width at least 4, "
            f"got inputs of shape {input_shape}; use model 'mlp' for other inputs."
        )
    channels, height, width = input_shape
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
        nn.Linear(64, need_classes("cnn", classes)),
    )
