"""The inputs of a model: one tensor, or several: a tuple is `module(*inputs)`, a dict is `module(**inputs)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Inputs: TypeAlias = Tensor | tuple[Tensor, ...] | dict[str, Tensor]
"""[n, ...] each."""


def map_inputs(f: Callable[..., Tensor], inputs: Inputs, *others: Inputs) -> Inputs:
    """f(tensor, that of the others, ...) of each tensor; a dict keeps the order of the first."""
    if isinstance(inputs, Tensor):
        return f(inputs, *others)
    if isinstance(inputs, dict):
        return {name: f(part, *(other[name] for other in others)) for name, part in inputs.items()}  # pyright: ignore
    return tuple(f(*parts) for parts in zip(inputs, *others, strict=True))


def named_inputs(inputs: Inputs) -> dict[str, Tensor]:
    """Each tensor by its name for messages; one tensor alone has none."""
    if isinstance(inputs, Tensor):
        return {"": inputs}
    return dict(inputs) if isinstance(inputs, dict) else {str(i): part for i, part in enumerate(inputs)}


def take(inputs: Inputs, rows: Any) -> Inputs:
    """Some examples, by whatever a tensor can be indexed with."""
    return map_inputs(lambda part: part[rows], inputs)


def select(inputs: Inputs, rows: Tensor) -> Inputs:
    """A copy of these rows: faster than `take`."""
    return map_inputs(lambda part: part.index_select(0, rows), inputs)


def cast_floats(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """Floats in this type; integers and masks stay as they are."""
    return map_inputs(lambda part: part.to(dtype) if part.is_floating_point() else part, inputs)


def arguments(inputs: Inputs) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """How the module is called: `module(*args, **kwargs)`."""
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    return ((), inputs) if isinstance(inputs, dict) else (inputs, {})


def described(inputs: Inputs, first: int = 1) -> str:
    """`[3, 32, 32] float32`, or `ids [16] int64, mask [16] bool`: the dimensions from `first` on, and types."""
    parts = named_inputs(inputs).items()
    return ", ".join(f"{name} {list(part.shape[first:])} {short_dtype(part)}".lstrip() for name, part in parts)


def short_dtype(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")
