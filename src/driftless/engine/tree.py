"""Nested tuples of tensors: the states, messages and uploads of algorithms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

Tree = Any
"""A tensor, or a (named) tuple of trees; `()` is the empty tree."""


def leaves(tree: Tree) -> list[Tensor]:
    return [leaf for _, leaf in named_leaves(tree)]


def named_leaves(tree: Tree, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Pairs such as ("inner.delta", tensor), in a fixed order; parts of a plain tuple are numbered."""
    if isinstance(tree, tuple):
        fields = getattr(tree, "_fields", range(len(tree)))
        for field, part in zip(fields, tree, strict=True):
            yield from named_leaves(part, f"{name}.{field}" if name else str(field))
    else:
        yield name, tree


def map_leaves(f: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """The tree of f(leaf, leaf of the others, ...)."""
    if not isinstance(tree, tuple):
        return f(tree, *others)
    return _like(tree, [map_leaves(f, *parts) for parts in zip(tree, *others, strict=True)])


def with_leaves(tree: Tree, new: list[Tensor]) -> Tree:
    """The tree with its leaves replaced, in the order of `leaves`."""
    values = iter(new)
    return map_leaves(lambda _: next(values), tree)


def _like(tree: tuple[Any, ...], parts: list[Any]) -> tuple[Any, ...]:
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
