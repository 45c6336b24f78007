"""Keras's initial parameters, for the models of papers that were computed with TensorFlow."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


@torch.no_grad()
def start_as_keras(module: Module) -> Module:
    """Glorot's uniform weights, biases of 0, small embeddings; LSTMs with one trained bias, 1 for the forget gate."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                part.bias.zero_()
        elif isinstance(part, nn.Embedding):
            part.weight.uniform_(-0.05, 0.05)
        elif isinstance(part, nn.LSTM):
            _start_lstm(part)
    return module


def _start_lstm(lstm: nn.LSTM) -> None:
    for name, parameter in lstm.named_parameters():
        if name.startswith("weight_ih"):
            nn.init.xavier_uniform_(parameter)
        elif name.startswith("weight_hh"):
            nn.init.orthogonal_(parameter)
        else:
            parameter.zero_()
            if name.startswith("bias_ih"):
                parameter[lstm.hidden_size : 2 * lstm.hidden_size] = 1  # torch's order of gates: i, f, g, o
            else:
                parameter.requires_grad_(False)  # torch adds a second bias, which Keras has not: it stays 0
