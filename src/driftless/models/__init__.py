"""The models that have a name. Any other `nn.Module` can be given to `driftless.simulate` as it is.

None has BatchNorm: a client's result would depend on its batches, and the running statistics are not parameters.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from driftless.errors import unknown
from driftless.models.cnn import cnn, cnn_adabest, cnn_emnist, cnn_fedgbo_cifar, cnn_fedgbo_femnist, lenet
from driftless.models.dense import linear, logistic, mlp
from driftless.models.group_norm import with_group_norm as with_group_norm
from driftless.models.mobilenet import mobilenet_v2
from driftless.models.recurrent import gru_fedgbo, lstm_ghbm, lstm_large_cohort, lstm_stackoverflow
from driftless.models.resnet import resnet_18, resnet_20
from driftless.models.task import Task
from driftless.models.vit import vit_b16
from driftless.models.weights import load_weights as load_weights
from driftless.models.weights import weights_content as weights_content
from driftless.random import torch_stream

MODELS: dict[str, Callable[[Task], nn.Module]] = {
    "linear": linear,
    "logistic": logistic,
    "mlp": mlp,
    "cnn": cnn,
    "cnn-adabest": cnn_adabest,
    "cnn-fedgbo-cifar": cnn_fedgbo_cifar,
    "cnn-fedgbo-femnist": cnn_fedgbo_femnist,
    "cnn-emnist": cnn_emnist,
    "lenet": lenet,
    "resnet-18": resnet_18,
    "resnet-20": resnet_20,
    "mobilenet-v2": mobilenet_v2,
    "vit-b16": vit_b16,
    "gru-fedgbo": gru_fedgbo,
    "lstm-ghbm": lstm_ghbm,
    "lstm-large-cohort": lstm_large_cohort,
    "lstm-stackoverflow": lstm_stackoverflow,
}
"""The models by their names; each is a function of the shapes of the data."""


def build(
    name: str, input_shape: tuple[int, ...], classes: int | None, seed: int = 0, target_shape: tuple[int, ...] = ()
) -> nn.Module:
    """Build a model by its name for the shapes of the data, its parameters drawn from the seed alone.

    Args:
        name: A name of `driftless list models`.
        input_shape: Of one example, such as (1, 28, 28).
        classes: The number of classes; None for regression, the size of the vocabulary for text.
        seed: Decides the parameters. Default 0.
        target_shape: () (default) for one label an example, (length,) for a label at each step of a sequence.

    Returns:
        The module, on the CPU.

    Raises:
        InputError: When the name is not known, or the model cannot take these shapes.

    Examples:
        >>> from driftless import models
        >>> module = models.build("mlp", (1, 8, 8), classes=10)
        >>> sum(parameter.numel() for parameter in module.parameters())
        17610
    """
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    with torch_stream(seed, "model"), torch.device("cpu"):
        return MODELS[name](Task(tuple(input_shape), classes, tuple(target_shape)))
