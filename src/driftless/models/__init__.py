"""The models that are known by name. Any other `nn.Module` can be given to `driftless.simulate` as it is."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from driftless.engine.random import torch_stream
from driftless.errors import unknown
from driftless.models.cnn import cnn
from driftless.models.linear import linear, logistic
from driftless.models.mlp import mlp

Builder = Callable[[tuple[int, ...], int | None], nn.Module]  # (shape of one input, classes or None for regression)

MODELS: dict[str, Builder] = {
    "linear": linear,
    "logistic": logistic,
    "mlp": mlp,
    "cnn": cnn,
}


def build(name: str, input_shape: tuple[int, ...], classes: int | None, seed: int = 0) -> nn.Module:
    """The named model for inputs of this shape, its parameters drawn from `seed` alone."""
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    with torch_stream(seed, "model"), torch.device("cpu"):
        return MODELS[name](tuple(input_shape), classes)
