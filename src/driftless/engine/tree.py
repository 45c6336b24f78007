"""Nested tuples of tensors: the states, messages and uploads of algorithms.

Only tensors are leaves. Everything else in a tree (None, numbers, slices) is part of its structure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch
from torch import Tensor

Tree = Any
"""A tensor, a value that is not a tensor, or a (named) tuple of trees; `()` is the empty tree."""


def leaves(tree: Tree) -> list[Tensor]:
    return [leaf for _, leaf in named_leaves(tree)]


def named_leaves(tree: Tree, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Pairs such as ("inner.delta", tensor), in a fixed order; parts of a plain tuple are numbered."""
    if isinstance(tree, tuple):
        fields = getattr(tree, "_fields", range(len(tree)))
        for field, part in zip(fields, tree, strict=True):
            yield from named_leaves(part, f"{name}.{field}" if name else str(field))
    elif isinstance(tree, Tensor):
        yield name, tree


def map_leaves(f: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """The tree of f(leaf, leaf of the others, ...)."""
    if isinstance(tree, tuple):
        return _like(tree, [map_leaves(f, *parts) for parts in zip(tree, *others, strict=True)])
    return f(tree, *others) if isinstance(tree, Tensor) else tree


def with_leaves(tree: Tree, new: list[Tensor]) -> Tree:
    """The tree with its leaves replaced, in the order of `leaves`."""
    values = iter(new)
    return map_leaves(lambda _: next(values), tree)


def stack(trees: list[Tree]) -> Tree:
    """One tree whose leaves have a first dimension more."""
    return map_leaves(lambda *rows: torch.stack(rows), *trees)


def structure(tree: Tree) -> Hashable:
    """Equal for trees that differ in the numbers of their tensors only."""
    if isinstance(tree, tuple):
        return (type(tree), *(structure(part) for part in tree))
    if isinstance(tree, Tensor):
        return (tree.shape, tree.stride(), tree.dtype)
    return repr(tree)


def _like(tree: tuple[Any, ...], parts: list[Any]) -> tuple[Any, ...]:
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
