"""Dropout whose mask depends only on a key, so that every engine drops the same units.

torch's own dropout draws from a global generator: under vmap, or with another order of clients, the masks would differ.
Here the mask is a hash of (key, position), and the engine gives each client, round and step its own key.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from driftless.errors import InputError

_GOLDEN = -7046029254386353131  # 2^64 / golden ratio, odd, as a signed 64-bit integer
_MIX_1 = -4658895280553007687
_MIX_2 = -7723592293110705685


def mix(z: Tensor) -> Tensor:
    """The finaliser of splitmix64 on int64 (arithmetic wraps around): flips about half of the bits of its input."""
    z = (z ^ _shift(z, 30)) * _MIX_1
    z = (z ^ _shift(z, 27)) * _MIX_2
    return z ^ _shift(z, 31)


def _shift(z: Tensor, bits: int) -> Tensor:
    """Logical right shift: torch's `>>` repeats the sign bit, the mask removes it."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def fold(key: Tensor, number: int) -> Tensor:
    """A new key from a key and a number, such as a step or the index of a layer."""
    step = (number + 1) * _GOLDEN
    return mix(key + ((step + 2**63) % 2**64 - 2**63))  # wrapped by hand: a Python integer does not wrap around


def keyed_uniform(key: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Uniform numbers in [0, 1) that depend only on the key and the position."""
    count = shape.numel()
    position = torch.arange(count, device=key.device)
    bits = _shift(mix(mix(key) + position * _GOLDEN), 40)
    return (bits.to(dtype) * 2.0**-24).reshape(shape)


class KeyedDropout(nn.Module):
    """Replaces `nn.Dropout` in the engine's copy of a model."""

    def __init__(self, p: float, layer: int) -> None:
        super().__init__()
        self.p = p
        self.layer = layer
        self._key: Tensor | None = None
        self._calls = 0
        """Uses in this forward pass: a module that is used twice drops other units the second time."""

    def start(self, key: Tensor | None) -> None:
        """A new forward pass; without a key nothing is dropped."""
        self._key, self._calls = key, 0

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training or self.p == 0 or self._key is None:
            return inputs
        if self.p == 1:
            return torch.zeros_like(inputs)
        key = fold(fold(self._key, self.layer), self._call())
        keep = keyed_uniform(key, inputs.shape, inputs.dtype) >= self.p
        return inputs * keep / (1 - self.p)

    def _call(self) -> int:
        """The number of this use in the forward pass. Activation checkpointing repeats a use in the backward pass."""
        if torch._C._current_graph_task_id() == -1:  # pyright: ignore[reportPrivateUsage]
            self._calls += 1
            return self._calls - 1
        if self._calls > 1:
            raise InputError(
                f"an nn.Dropout(p={self.p:g}) is used {self._calls} times in a forward pass with activation "
                "checkpointing, and which of them is repeated cannot be known; give each place a dropout of its own."
            )
        return 0


def with_keyed_dropout(module: nn.Module) -> list[KeyedDropout]:
    """Replace every `nn.Dropout` of the module in place, and return the new ones.

    A dropout that stands in several places of the module stays one module.
    """
    twins: dict[nn.Module, KeyedDropout] = {}
    for name, part in list(module.named_modules(remove_duplicate=False)):
        if type(part) is nn.Dropout:
            twin = twins.setdefault(part, KeyedDropout(part.p, len(twins)).train(part.training))
            parent, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(parent), attribute, twin)
    return list(twins.values())
