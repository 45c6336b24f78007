"""Initial parameters as in Keras, for the models of papers that used TensorFlow."""

from __future__ import annotations

import torch
from torch import nn


@torch.no_grad()
def initialize_like_keras(module: nn.Module) -> nn.Module:
    """Glorot's uniform weights, biases of 0, small embeddings; LSTMs with one trained bias, 1 for the forget gate."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                layer.bias.zero_()
        elif isinstance(layer, nn.Embedding):
            layer.weight.uniform_(-0.05, 0.05)
        elif isinstance(layer, nn.LSTM):
            _initialize_lstm(layer)
    return module


def _initialize_lstm(lstm: nn.LSTM) -> None:
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
                parameter.requires_grad_(False)  # torch's second bias, absent in Keras, stays 0
