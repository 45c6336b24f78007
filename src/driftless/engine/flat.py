"""The flat vector is the model: a module as a function of one vector."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from driftless.data.inputs import Inputs, arguments
from driftless.engine.device import CPU, autocast, state_dtype
from driftless.engine.dropout import with_keyed_dropout
from driftless.engine.modes import begin_training, frozen_statistics, kept_in_eval
from driftless.engine.module_state import tensors_of
from driftless.engine.resident import Output, ResidentModule
from driftless.errors import InputError

Parameters = dict[str, Tensor]
"""A vector's slices by the names of the module's parameters."""


class FlatModel:
    """A module whose trainable parameters are the slices of a flat vector.

    The user's module is copied and never changed. Parameters that do not require a gradient, and buffers, are
    constants: they are neither trained nor sent.
    """

    def __init__(
        self, module: nn.Module, precision: torch.dtype, output: Output | None = None, device: torch.device = CPU
    ) -> None:
        """`output` takes the tensor that the loss sees out of what the module returns, if it is not that tensor."""
        self.precision = precision
        self.device = device
        self._original = copy_of(module)  # the user may change the module later
        self._module = converted(copy_of(module), state_dtype(precision), device)
        self._dropouts = with_keyed_dropout(self._module)
        self._kept_in_eval = kept_in_eval(self._module)
        begin_training(self._module, self._kept_in_eval)
        self.frozen_statistics = frozen_statistics(self._module)
        refuse_shared_memory(module)
        trainable = {name: p for name, p in self._module.named_parameters() if p.requires_grad}
        refuse_parameters(trainable)
        self.names = tuple(trainable)
        names = {id(p): name for name, p in trainable.items()}
        self._places = {
            f"{prefix}.{name}".lstrip("."): names[id(p)]
            for prefix, part in self._module.named_modules()
            for name, p in part.named_parameters(recurse=False)
            if p.requires_grad
        }
        """Where each parameter is used: one may stand in several layers."""
        self._shapes = [p.shape for p in trainable.values()]
        ends = list(accumulate(p.numel() for p in trainable.values()))
        self.layers = tuple(slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True))
        self.size: int = ends[-1]
        self.initial = torch.cat([p.detach().flatten() for p in trainable.values()])
        self.output = output or unchanged

    @property
    def uses_dropout(self) -> bool:
        return bool(self._dropouts)

    @property
    def dropouts_in_eval(self) -> int:
        """Not always meant: a wrapper is in training mode, and the pretrained network inside it is not."""
        return sum(dropout in self._kept_in_eval and dropout.p > 0 for dropout in self._dropouts)

    @cached_property
    def resident(self) -> ResidentModule:
        """The same module for ordinary PyTorch."""
        return ResidentModule(
            self._module, self._kept_in_eval, self._dropouts, self.initial, self.layers, self.output
        )  # fmt: skip

    def parameters(self, x: Tensor) -> Parameters:
        """The vector's slices, as views."""
        parts = zip(self.names, self.layers, self._shapes, strict=True)
        return {name: x[layer].view(shape) for name, layer, shape in parts}

    def train(self, parameters: Parameters, inputs: Inputs, key: Tensor | None) -> Tensor:
        """Outputs in training mode as a pure function, which vmap can lift; `key` decides what dropout drops."""
        if not self._module.training:
            begin_training(self._module, self._kept_in_eval)
        for dropout in self._dropouts:
            dropout.start(key)
        everywhere = {place: parameters[name] for place, name in self._places.items()}
        return self.output(functional_call(self._module, everywhere, *arguments(inputs), tie_weights=False))

    def computing(self) -> AbstractContextManager[object]:
        """Around forward pass and loss of training: the precision."""
        return autocast(self.precision, self.device)

    def kinds_of_layers(self) -> set[type[nn.Module]]:
        return {type(part) for part in self._module.modules()}

    def fill(self, x: Tensor) -> nn.Module:
        """A copy of the user's module with the vector's values."""
        result = converted(copy_of(self._original), x.dtype)
        own = dict(result.named_parameters())
        with torch.no_grad():
            for name, values in self.parameters(x).items():
                own[name].copy_(values)
        return result

    def constants(self) -> Parameters:
        """What is neither trained nor sent: parameters that require no gradient, and buffers."""
        return {name: value for name, value in self._original.state_dict().items() if name not in self._places}


def unchanged(outputs: Tensor) -> Tensor:
    return outputs


def copy_of(module: nn.Module) -> nn.Module:
    lazy = next((name for name, p in module.named_parameters() if is_lazy(p)), None)
    if lazy is not None:
        raise InputError(
            f"the model's parameter '{lazy}' has no shape yet (a lazy module); call the model on a batch first."
        )
    try:
        result = copy.deepcopy(module)
    except Exception as error:
        raise InputError(
            f"the model cannot be copied: {type(error).__name__}: {error}. Each client trains a copy. If it has a "
            "weight_norm, use torch.nn.utils.parametrizations.weight_norm; if it was pruned, call "
            "torch.nn.utils.prune.remove; a tensor that a forward pass has left in an attribute must be deleted."
        ) from error
    memory = {p.untyped_storage().data_ptr() for p in module.parameters()} - {0}  # 0: on the meta device, or empty
    if any(p.untyped_storage().data_ptr() in memory for p in result.parameters()):
        raise InputError(
            "copy.deepcopy of the model returns its own parameters, so that training would change the model that was "
            "given; its __deepcopy__ must copy them."
        )
    return result


def refuse_shared_memory(module: nn.Module) -> None:
    """A parameter gets memory of its own; whatever shared the old memory would no longer follow it."""
    tensors = [
        (f"{prefix}.{name}".lstrip("."), value)
        for prefix, part in module.named_modules()
        for name, value in tensors_of(part)
        if value.layout == torch.strided and value.data_ptr()
    ]
    unique = {id(value): (value.data_ptr(), i, name, value) for i, (name, value) in enumerate(reversed(tensors))}
    in_memory = sorted(unique.values(), key=lambda place: (place[0], -place[1]))
    for (start, _, name, value), (other_start, _, other, other_value) in pairwise(in_memory):
        trained = [(n, o) for n, o, v in ((name, other, value), (other, name, other_value)) if is_trainable(v)]
        if other_start < start + span(value) and trained:
            parameter, second = trained[0]
            raise InputError(
                f"'{second}' shares memory with the parameter '{parameter}'; every client has parameters of its own, "
                f"which it would not follow. Compute '{second}' from '{parameter}' in the forward pass, or use one "
                "parameter in both places."
            )


def is_trainable(value: Tensor) -> bool:
    return isinstance(value, nn.Parameter) and value.requires_grad


def span(value: Tensor) -> int:
    """Bytes from the first to behind the last element."""
    last = sum((n - 1) * stride for n, stride in zip(value.shape, value.stride(), strict=True))
    return (1 + last) * value.element_size()


def converted(module: nn.Module, dtype: torch.dtype, device: torch.device | None = None) -> nn.Module:
    """The module on the device, its real parameters and buffers in this dtype; `Module.to` drops imaginary parts."""
    module = module if device is None else module.to(device)
    for value in (*module.parameters(), *module.buffers()):
        if value.is_floating_point():
            value.data = value.data.to(dtype)
    return module


def refuse_parameters(trainable: dict[str, nn.Parameter]) -> None:
    if not trainable:
        raise InputError("the model has no trainable parameter; give one with requires_grad=True.")
    strange = {name: p for name, p in trainable.items() if p.is_complex() or p.layout != torch.strided}
    for name, p in strange.items():
        kind = f"{p.dtype}" if p.is_complex() else f"{p.layout}"
        raise InputError(
            f"the model's parameter '{name}' is {kind}, and the flat vector of a model holds dense real numbers only; "
            "for complex ones use two real parameters and torch.complex."
        )
