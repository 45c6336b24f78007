"""The flat vector is the model: a module as a function of one vector."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]

from driftless.engine.dropout import with_keyed_dropout
from driftless.errors import InputError

Parameters = dict[str, Tensor]
"""A vector's slices by the names of the module's parameters."""


class FlatModel:
    """A module whose trainable parameters are the slices of a flat vector.

    The user's module is copied and never changed. Parameters that do not require a gradient, and buffers, are
    constants: they are neither trained nor sent.
    """

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        refuse_batch_statistics(module)
        self.description = repr(module)
        self._train = copy.deepcopy(module).to(dtype).train()
        self._keys = with_keyed_dropout(self._train)
        # The evaluation copy shares every tensor with the training copy.
        shared = {id(t): t for t in (*self._train.parameters(), *self._train.buffers())}
        self._eval = copy.deepcopy(self._train, shared).eval()
        parameters = {name: p for name, p in self._train.named_parameters() if p.requires_grad}
        if not parameters:
            raise InputError("the model has no trainable parameter; give one with requires_grad=True.")
        self.names = tuple(parameters)
        self._shapes = [p.shape for p in parameters.values()]
        ends = torch.tensor([p.numel() for p in parameters.values()]).cumsum(0).tolist()
        self.layers = tuple(slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True))
        self.size: int = ends[-1]
        self.initial = torch.cat([p.detach().flatten() for p in parameters.values()])

    @property
    def uses_dropout(self) -> bool:
        return bool(self._keys)

    def parameters(self, x: Tensor) -> Parameters:
        """The vector's slices, as views."""
        parts = zip(self.names, self.layers, self._shapes, strict=True)
        return {name: x[layer].view(shape) for name, layer, shape in parts}

    def train(self, parameters: Parameters, inputs: Tensor, key: Tensor | None) -> Tensor:
        """Outputs in training mode; `key` decides what dropout drops."""
        for dropout in self._keys.values():
            dropout.calls = 0
        keys = {} if key is None else dict.fromkeys(self._keys, key)
        return functional_call(self._train, {**parameters, **keys}, (inputs,))

    def evaluate(self, x: Tensor, inputs: Tensor) -> Tensor:
        return functional_call(self._eval, self.parameters(x), (inputs,))

    def fill(self, module: nn.Module, x: Tensor) -> nn.Module:
        """A copy of the user's module with the vector's values."""
        result = copy.deepcopy(module).to(x.dtype)
        result.load_state_dict(self.parameters(x), strict=False)
        return result


def refuse_batch_statistics(module: nn.Module) -> None:
    """Running statistics are not parameters, and batch statistics would mix a client's examples with padding."""
    for name, part in module.named_modules():
        if isinstance(part, _BatchNorm) or getattr(part, "track_running_stats", False):
            raise InputError(
                f"layer '{name or type(part).__name__}' is a {type(part).__name__}: its batch or running statistics "
                "are not parameters and cannot be averaged like them; use nn.GroupNorm or nn.LayerNorm instead."
            )
