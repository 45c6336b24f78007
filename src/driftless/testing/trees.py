"""Nested tuples of tensors, looked at without the engine's own help."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from driftless.engine.module_state import is_same
from driftless.errors import short_repr


def parts(tree: Any) -> dict[str, Any] | None:
    """The parts of a tuple by name or number; None for anything else."""
    if not isinstance(tree, tuple):
        return None
    return dict(zip(map(str, getattr(tree, "_fields", range(len(tree)))), tree, strict=True))


def named_values(tree: Any, name: str = "") -> dict[str, Any]:
    """By its path, everything in the tree that is not a tuple: tensors, and what has no place in a state."""
    inside = parts(tree)
    if inside is None:
        return {name: tree}
    return {
        path: value
        for field, part in inside.items()
        for path, value in named_values(part, f"{name}.{field}" if name else field).items()
    }


def structure(tree: Any) -> Any:
    """Types of the tuples, shapes and dtypes of the tensors: what a checkpoint depends on."""
    if isinstance(tree, Tensor):
        return tuple(tree.shape), tree.dtype
    if isinstance(tree, tuple):
        return type(tree), tuple(map(structure, tree))
    return type(tree)


def described(tree: Any) -> str:
    """`Server(x: float64[8], m: float64[8])`."""
    if isinstance(tree, Tensor):
        return f"{str(tree.dtype).removeprefix('torch.')}{list(tree.shape)}"
    if (inside := parts(tree)) is None:
        return short_repr(tree)
    if not hasattr(tree, "_fields"):
        return f"({', '.join(map(described, tree))})"
    return f"{type(tree).__name__}({', '.join(f'{name}: {described(part)}' for name, part in inside.items())})"


def difference(one: Any, other: Any, tolerance: float = 0.0, name: str = "") -> str | None:
    """What differs by more than the tolerance, absolute and relative; None if nothing does. 0: equal to the bit."""
    if structure(one) != structure(other):
        return f"{described(one)} became {described(other)}"
    for (path, value), twin in zip(named_values(one, name).items(), named_values(other).values(), strict=True):
        where = f"`{path}`" if path else "it"
        if not isinstance(value, Tensor):
            if not is_same(value, twin):
                return f"{where} is {short_repr(value)} and {short_repr(twin)}"
        elif not equal(value, twin, tolerance):
            return f"{where} differs by up to {float((value - twin).abs().max()):.2g}"
    return None


def equal(one: Tensor, other: Tensor, tolerance: float) -> bool:
    return torch.equal(one, other) or bool(tolerance and torch.allclose(one, other, rtol=tolerance, atol=tolerance))
