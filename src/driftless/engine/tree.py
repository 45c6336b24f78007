"""Nested tuples and dicts of tensors: the states, messages and uploads of algorithms, minibatches.

Only tensors are leaves. Everything else in a tree (None, numbers, slices) is part of its structure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

Tree = Any
"""A tensor, a value that is not a tensor, or a (named) tuple or a dict of trees; `()` is the empty tree."""


def leaves(tree: Tree) -> list[Tensor]:
    """In the order of `named_leaves`; called for every step, hence without names."""
    if isinstance(tree, Tensor):
        return [tree]
    if not isinstance(tree, (tuple, dict)):
        return []
    found: list[Tensor] = []
    for part in parts_of(tree):
        if isinstance(part, Tensor):
            found.append(part)
        elif part is not None:
            found += leaves(part)
    return found


def named_leaves(tree: Tree, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Pairs such as ("inner.delta", tensor), in a fixed order; parts of a plain tuple are numbered."""
    if isinstance(tree, (tuple, dict)):
        fields = sorted(tree) if isinstance(tree, dict) else getattr(tree, "_fields", range(len(tree)))
        for field, part in zip(fields, parts_of(tree), strict=True):
            yield from named_leaves(part, f"{name}.{field}" if name else str(field))
    elif isinstance(tree, Tensor):
        yield name, tree


def map_leaves(f: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """The tree of f(leaf, leaf of the others, ...)."""
    if isinstance(tree, Tensor):
        return f(tree, *others)
    if isinstance(tree, (tuple, dict)):
        together = zip(parts_of(tree), *map(parts_of, others), strict=True)
        return like(tree, [map_leaves(f, *parts) for parts in together])
    return tree


def with_leaves(tree: Tree, new: list[Tensor]) -> Tree:
    """The tree with its leaves replaced, in the order of `leaves`."""
    values = iter(new)
    return map_leaves(lambda _: next(values), tree)


def stack(trees: list[Tree]) -> Tree:
    """One tree whose leaves have a first dimension more."""
    return map_leaves(lambda *rows: torch.stack(rows), *trees)


def structure(tree: Tree) -> Hashable:
    """Equal for trees that differ in the numbers of their tensors only."""
    if isinstance(tree, Tensor):
        return (tree.shape, tree.stride(), tree.dtype)
    if isinstance(tree, tuple):
        return (type(tree), *map(structure, tree))
    if isinstance(tree, dict):
        return (type(tree), tuple(tree), *map(structure, parts_of(tree)))
    return None if tree is None else repr(tree)


def parts_of(tree: Tree) -> Sequence[Any]:
    """Of a tuple or a dict; those of a dict by name, because a dict that was made anew may have another order."""
    return [tree[name] for name in sorted(tree)] if isinstance(tree, dict) else tree


def like(tree: Tree, parts: list[Any]) -> Tree:
    """A tuple or a dict of these parts, in the order of `parts_of`."""
    if isinstance(tree, dict):
        named = dict(zip(sorted(tree), parts, strict=True))
        return {name: named[name] for name in tree}
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
