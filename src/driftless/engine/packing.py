"""Trees of tensors as one vector a dtype: what processes send each other, in few messages."""

from __future__ import annotations

import torch
from torch import Tensor

from driftless.engine.tree import Tree, leaves, map_leaves


def packed(tree: Tree) -> list[Tensor]:
    """The leaves of a tree as one vector a dtype, in main memory."""
    return [torch.cat([leaf.flatten() for leaf in group]).cpu() for group in by_dtype(leaves(tree))]


def room_for(like: Tree) -> list[Tensor]:
    return [
        torch.empty(sum(leaf.numel() for leaf in group), dtype=group[0].dtype, device="cpu")
        for group in by_dtype(leaves(like))
    ]


def unpacked(vectors: list[Tensor], like: Tree) -> Tree:
    groups = by_dtype(leaves(like))
    parts = {
        id(leaf): part.view(leaf.shape).to(leaf.device)
        for vector, group in zip(vectors, groups, strict=True)
        for leaf, part in zip(group, vector.split([leaf.numel() for leaf in group]), strict=True)
    }
    return map_leaves(lambda leaf: parts[id(leaf)], like)


def by_dtype(values: list[Tensor]) -> list[list[Tensor]]:
    groups: dict[torch.dtype, list[Tensor]] = {}
    for value in values:
        groups.setdefault(value.dtype, []).append(value)
    return list(groups.values())
