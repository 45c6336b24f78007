"""One module that stays in memory: its parameters are views of one flat vector, their gradients of another.

A client's model is copied into the vector; then forward, loss and backward are ordinary PyTorch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from driftless.engine.dropout import KeyedDropout


class SavedBuffer(NamedTuple):
    """A buffer as it was in the beginning."""

    owner: nn.Module
    name: str
    tensor: Tensor
    version: int
    """torch counts here how often the tensor was written to."""
    values: Tensor


class ResidentModule:
    def __init__(self, module: nn.Module, dropouts: list[KeyedDropout], x: Tensor, layers: tuple[slice, ...]) -> None:
        """`module` belongs to this object from now on."""
        self.module = module
        self.vector = x.clone()
        self._layers = layers
        self._dropouts = dropouts
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        for p, layer in zip(self._parameters, layers, strict=True):
            p.data = self.vector[layer].view(p.shape)
        self._gradient: Tensor | None = None
        self._buffers = [
            SavedBuffer(part, name, buffer, buffer._version, buffer.clone())
            for part in module.modules()
            for name, buffer in part.named_buffers(recurse=False)
        ]

    @property
    def gradient(self) -> Tensor:
        """The gradients of all parameters; backward adds to it."""
        if self._gradient is None:
            self._gradient = torch.zeros_like(self.vector)
            for p, layer in zip(self._parameters, self._layers, strict=True):
                p.grad = self._gradient[layer].view(p.shape)
        return self._gradient

    def load(self, x: Tensor) -> None:
        """The module computes with x from now on. What a forward pass has changed besides is set back."""
        with torch.no_grad():
            self.vector.copy_(x)
            for i, saved in enumerate(self._buffers):
                if getattr(saved.owner, saved.name) is saved.tensor and saved.tensor._version == saved.version:
                    continue
                saved.tensor.copy_(saved.values)
                setattr(saved.owner, saved.name, saved.tensor)
                self._buffers[i] = saved._replace(version=saved.tensor._version)

    def outputs(self, inputs: Tensor, key: Tensor | None = None) -> Tensor:
        """In training mode; `key` decides what dropout drops."""
        if not self.module.training:
            self.module.train()
        for dropout in self._dropouts:
            dropout.start(key)
        return self.module(inputs)

    @torch.no_grad()
    def evaluate(self, inputs: Tensor) -> Tensor:
        """In evaluation mode, on a copy of the inputs: a layer may write over them."""
        if self.module.training:
            self.module.eval()
        return self.module(inputs.clone())
