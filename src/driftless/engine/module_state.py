"""What a model or an algorithm keeps in itself besides parameters and states, and whether it is still as it was.

Each client trains a copy of the model, so a counter or a running mean begins anew with each. An algorithm's own
attributes never change: the result would depend on the order of the clients and on the number of processes.
"""

from __future__ import annotations

import copy
from collections import deque
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from driftless.algorithm import Algorithm
from driftless.errors import InputError

OF_EVERY_MODULE = frozenset(vars(nn.Module()))


class SavedTensor(NamedTuple):
    """A buffer, a frozen parameter, or a tensor that is an ordinary attribute."""

    owner: nn.Module
    name: str
    tensor: Tensor
    version: int
    """torch counts here how often the tensor was written to."""
    values: Tensor

    def is_changed(self) -> bool:
        return getattr(self.owner, self.name, None) is not self.tensor or self.tensor._version != self.version


class SavedAttributes(NamedTuple):
    """The other attributes of a module: counters, flags, lists."""

    owner: nn.Module
    values: dict[str, Any]

    def is_changed(self) -> bool:
        return not is_same(attributes_of(self.owner), self.values)


class SavedState:
    """What a forward pass of a module may change besides the parameters, as it was in the beginning."""

    def __init__(self, module: nn.Module, other_than: tuple[type[nn.Module], ...] = ()) -> None:
        parts = [part for part in module.modules() if not isinstance(part, other_than)]
        self._tensors = [
            SavedTensor(part, name, value, value._version, value.detach().clone())
            for part in parts
            for name, value in tensors_of(part)
            if not (isinstance(value, nn.Parameter) and value.requires_grad)
        ]
        # Layers, parameters and tensors that an attribute refers to are the module's own, not copies.
        known = (*module.modules(), *module.parameters(), *(saved.tensor for saved in self._tensors))
        self._known = {id(value): value for value in known}
        self._attributes = [SavedAttributes(part, self._copied(attributes_of(part))) for part in parts]

    def is_changed(self) -> bool:
        """Apart from torch's recurrent layers, which keep a list of the weights they were called with."""
        own = [saved for saved in self._attributes if not isinstance(saved.owner, nn.RNNBase)]
        return any(saved.is_changed() for saved in (*self._tensors, *own))

    @torch.no_grad()
    def restore(self) -> None:
        for i, saved in enumerate(self._tensors):
            if saved.is_changed():
                saved.tensor.detach().copy_(saved.values)
                setattr(saved.owner, saved.name, saved.tensor)
                self._tensors[i] = saved._replace(version=saved.tensor._version)
        for saved in self._attributes:
            if saved.is_changed():
                for name in attributes_of(saved.owner).keys() - saved.values.keys():
                    delattr(saved.owner, name)
                vars(saved.owner).update(self._copied(saved.values))

    def _copied(self, values: dict[str, Any]) -> dict[str, Any]:
        return copy.deepcopy(values, dict(self._known))


def attributes_of(part: nn.Module) -> dict[str, Any]:
    """What a module keeps besides its parameters, buffers, layers and hooks."""
    return {name: value for name, value in vars(part).items() if name not in OF_EVERY_MODULE}


def tensors_of(part: nn.Module) -> list[tuple[str, Tensor]]:
    """Parameters, buffers and other attributes of a module that are tensors; not those of its layers."""
    named = [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
    return named + [(name, value) for name, value in attributes_of(part).items() if isinstance(value, Tensor)]


def is_same(now: Any, before: Any, compared: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Whether a copy of the one would be a copy of the other; in doubt not."""
    if now is before or (id(now), id(before)) in compared:
        return True
    if type(now) is not type(before):
        return False
    if isinstance(now, (bool, int, float, complex, str, bytes, set, frozenset)):
        return now == before
    if isinstance(now, Tensor):
        return now.dtype == before.dtype and torch.equal(now, before)
    compared |= {(id(now), id(before))}
    if isinstance(now, dict):
        return now.keys() == before.keys() and all(is_same(now[key], before[key], compared) for key in now)
    if isinstance(now, (list, tuple, deque)):
        return len(now) == len(before) and all(is_same(*pair, compared) for pair in zip(now, before, strict=True))
    try:
        return is_same(now.__reduce_ex__(4), before.__reduce_ex__(4), compared)
    except Exception:  # an object that cannot be copied
        return False


def check_unchanged(algorithm: Algorithm, before: Algorithm) -> None:
    """`before`: a copy that was made before the run."""
    cached = {name for name in vars(algorithm) if isinstance(getattr(type(algorithm), name, None), cached_property)}
    old = vars(before)
    for name, value in vars(algorithm).items():
        if name not in cached and not (name in old and is_same(value, old[name])):
            raise InputError(
                f"{type(algorithm).__name__} changes its own attribute '{name}' during a run; then the result would "
                "depend on the order of the clients and on the number of processes. What changes belongs into the "
                "NamedTuple of the server (init_server, update), of a client (init_client, upload) or of the local "
                "steps (init_local, direction)."
            )
