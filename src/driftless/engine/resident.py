"""One module that stays in memory: its parameters are views of one flat vector, their gradients of another.

A client's model is copied into the vector; then forward, loss and backward are ordinary PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from driftless.data.inputs import Inputs, arguments, map_inputs
from driftless.engine.dropout import KeyedDropout
from driftless.engine.modes import begin_training
from driftless.engine.module_state import SavedState

Output = Callable[[Any], Tensor]
"""From what a module returns to the tensor that the loss and the metrics see."""


class ResidentModule:
    def __init__(
        self,
        module: nn.Module,
        kept_in_eval: list[nn.Module],
        dropouts: list[KeyedDropout],
        x: Tensor,
        layers: tuple[slice, ...],
        output: Output,
    ) -> None:
        """`module` belongs to this object from now on."""
        self.module = module
        self._kept_in_eval = kept_in_eval
        self.vector = x.clone()
        self._layers = layers
        self._dropouts = dropouts
        self._output = output
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        for p, layer in zip(self._parameters, layers, strict=True):
            p.data = self.vector[layer].view(p.shape)
        self._gradient: Tensor | None = None
        self._saved = SavedState(module, other_than=(KeyedDropout,))
        self.channels_last = False
        """Whether images are given to the module in that order (channels_last.py)."""

    @property
    def gradient(self) -> Tensor:
        """The gradients of all parameters; backward adds to it."""
        if self._gradient is None:
            self._gradient = torch.zeros_like(self.vector)
            for p, layer in zip(self._parameters, self._layers, strict=True):
                p.grad = self._gradient[layer].view(p.shape)
        return self._gradient

    @torch.no_grad()
    def load(self, x: Tensor) -> None:
        """The module computes with x from now on. All else that a forward pass has changed is set back."""
        self.vector.copy_(x)
        self._saved.restore()

    def is_changed(self) -> bool:
        """Whether something besides the parameters is not as it was in the beginning."""
        return self._saved.is_changed()

    def outputs(self, inputs: Inputs, key: Tensor | None = None) -> Tensor:
        """In training mode; `key` decides what dropout drops."""
        if not self.module.training:
            begin_training(self.module, self._kept_in_eval)
        for dropout in self._dropouts:
            dropout.start(key)
        args, kwargs = arguments(self._in_order(inputs))
        return self._output(self.module(*args, **kwargs))

    @torch.no_grad()
    def evaluate(self, inputs: Inputs) -> Tensor:
        """In evaluation mode."""
        return self._output(self.returned(inputs))

    @torch.no_grad()
    def returned(self, inputs: Inputs) -> Any:
        """What the module itself returns in evaluation mode, on a copy of the inputs: a layer may write over them."""
        if self.module.training:
            self.module.eval()
        args, kwargs = arguments(self._in_order(map_inputs(Tensor.clone, inputs)))
        return self.module(*args, **kwargs)

    def _in_order(self, inputs: Inputs) -> Inputs:
        return map_inputs(in_channels_last, inputs) if self.channels_last else inputs


def in_channels_last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last) if images.dim() == 4 else images
