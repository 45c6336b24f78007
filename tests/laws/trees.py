"""Assertions about nested tuples of tensors."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from driftless.testing.trees import difference, named_values, structure

__all__ = ["assert_close", "assert_same_bits", "structure", "tensors"]


def tensors(tree: Any) -> dict[str, Tensor]:
    """Every tensor by its path; anything that is neither a tensor nor a tuple is a failure."""
    values = named_values(tree)
    assert all(isinstance(value, Tensor) for value in values.values()), values
    return values


def assert_same_bits(one: Any, other: Any) -> None:
    assert difference(one, other) is None


def assert_close(one: Any, other: Any, tolerance: float) -> None:
    assert difference(one, other, tolerance) is None
