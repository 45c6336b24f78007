"""Nested tuples of tensors, looked at without the engine's own help."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def tensors(tree: Any, name: str = "") -> dict[str, Tensor]:
    """Every tensor by its path; anything that is neither a tensor nor a tuple is a failure."""
    if isinstance(tree, Tensor):
        return {name: tree}
    assert isinstance(tree, tuple), f"{name or 'the state'} is {tree!r}: neither a tensor nor a tuple of tensors"
    names = getattr(tree, "_fields", None) or range(len(tree))
    return {
        path: leaf
        for field, part in zip(names, tree, strict=True)
        for path, leaf in tensors(part, f"{name}.{field}" if name else str(field)).items()
    }


def structure(tree: Any) -> Any:
    """Types of the tuples, shapes and dtypes of the tensors: what a checkpoint depends on."""
    if isinstance(tree, Tensor):
        return tuple(tree.shape), tree.dtype
    assert isinstance(tree, tuple), f"{tree!r} is neither a tensor nor a tuple"
    return type(tree), tuple(structure(part) for part in tree)


def assert_same_bits(one: Any, other: Any) -> None:
    assert structure(one) == structure(other)
    for path, leaf in tensors(one).items():
        twin = tensors(other)[path]
        assert torch.equal(leaf, twin), f"{path} differs by {(leaf - twin).abs().max()}"


def assert_close(one: Any, other: Any, tolerance: float) -> None:
    assert structure(one) == structure(other)
    for path, leaf in tensors(one).items():
        torch.testing.assert_close(
            leaf, tensors(other)[path], rtol=tolerance, atol=tolerance, msg=lambda text, path=path: f"{path}: {text}"
        )
