"""What comes back from a block of clients: sums, never one client's numbers, and the means they add up to.

The exception is robust aggregation (aggregation.py), which needs the clients' uploads themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from driftless.algorithm import Upload
from driftless.engine.local import Trained
from driftless.engine.minibatches import Block
from driftless.engine.tree import Tree, leaves, map_leaves, named_leaves, with_leaves


class ClientMetrics(NamedTuple):
    """Numbers of each client [clients], or their sums or means over clients."""

    steps: Tensor
    examples: Tensor
    loss: Tensor
    accuracy: Tensor
    squared_norm: Tensor
    """Of the update that was sent."""


UNWEIGHTED = frozenset({"steps", "examples"})
"""Metrics whose mean is the plain one whatever the weighting."""


class UploadRows(NamedTuple):
    """The uploads of a block's clients, one row each: only for robust aggregation."""

    uploads: Upload
    weights: Tensor
    """[clients]."""


class BlockSums(NamedTuple):
    """What the server receives of a block, or of several: sums over clients."""

    uploads: Upload
    metrics: ClientMetrics
    directions: Tensor
    """The sum of the unit vectors of the updates."""
    weight: Tensor
    """The sum of the clients' weights."""
    moved: Tensor
    """The number of updates that are not zero."""
    arrived: Tensor
    """[clients], bool: False for a client that is left out because its update is not finite."""
    rows: tuple[UploadRows, ...] = ()
    """Of each block if the aggregation needs all uploads; clients that are left out have rows of zeros."""

    @property
    def number(self) -> int:
        """Of the clients that arrived."""
        return int(self.arrived.sum())


def sums_of(block: Block, trained: Trained, arrived: Tensor, weighting: str, uniform: frozenset[str]) -> BlockSums:
    """`block` and `trained` have only the clients that arrived."""
    weights = weights_of(weighting, block)
    deltas = trained.upload.delta
    norms = deltas.norm(dim=1)
    if not torch.isfinite(norms).all():
        norms = torch.linalg.vector_norm(deltas, dim=1, dtype=torch.float64)  # too long for float32
    inverse = torch.where(norms > 0, 1 / norms, 0.0).to(deltas.dtype)
    squared = norms.square().to(block.steps.dtype)
    metrics = ClientMetrics(block.steps, block.examples, trained.loss, trained.accuracy, squared)
    return BlockSums(
        weighted_sum(trained.upload, weights, uniform),
        weighted_sum(metrics, weights, UNWEIGHTED),
        inverse @ deltas,
        weights.sum().double(),
        (norms > 0).sum(),
        arrived,
    )


def add(total: BlockSums | None, block: BlockSums) -> BlockSums:
    """The sums over more clients; blocks are added in their order, so the result does not depend on who sent them."""
    if total is None:
        return block
    arrived, rows = torch.cat([total.arrived, block.arrived]), total.rows + block.rows
    if not block.arrived.any() or not total.arrived.any():
        return (block if block.arrived.any() else total)._replace(arrived=arrived, rows=rows)
    uploads, metrics, directions, weight, moved = map_leaves(torch.add, total[:-2], block[:-2])
    return BlockSums(uploads, metrics, directions, weight, moved, arrived, rows)


def like_block(example: BlockSums, clients: int) -> BlockSums:
    """The structure of the sums of a block of so many clients, given those of another block."""
    return example._replace(
        arrived=example.arrived.new_empty(clients),
        rows=map_leaves(lambda leaf: leaf.new_empty(clients, *leaf.shape[1:]), example.rows),
    )


def means_of(total: BlockSums, uniform: frozenset[str]) -> tuple[Upload, ClientMetrics]:
    weight, count = float(total.weight), total.number

    def mean(sums: Tree, unweighted: frozenset[str]) -> Tree:
        named = named_leaves(sums)
        return with_leaves(sums, [leaf / (count if is_uniform(name, unweighted) else weight) for name, leaf in named])

    return mean(total.uploads, uniform), mean(total.metrics, UNWEIGHTED)


def row_of(total: BlockSums, mean: Upload, metrics: ClientMetrics, aggregated: Upload) -> dict[str, float]:
    """Numbers about the cohort's updates, in O(cohort x parameters); `aggregated`: what the server makes of them."""
    spread = metrics.squared_norm - mean.delta.square().sum()
    noise = 16 * torch.finfo(spread.dtype).eps * metrics.squared_norm  # what rounding leaves of equal updates
    spread = torch.where(spread > noise, spread, 0.0)
    row = {"train_loss": metrics.loss, "norm_update": torch.linalg.vector_norm(aggregated.delta, dtype=torch.float64)}
    if torch.isfinite(metrics.squared_norm):
        row["drift"] = spread.sqrt()
    if not torch.isnan(metrics.accuracy):
        row["train_accuracy"] = metrics.accuracy
    moved = int(total.moved)
    if moved > 1:
        # The squared length of the sum of unit vectors is their number plus twice the sum of pairwise cosines.
        pairs = total.directions.square().sum() - moved
        row["cosine"] = pairs / (moved * (moved - 1))
    return {name: float(value) for name, value in row.items()}


def weighted_sum(stacked: Tree, weights: Tensor, uniform: frozenset[str]) -> Tree:
    """Sums over the clients of a block; fields named in `uniform` ignore the weights."""
    ones = torch.ones_like(weights)
    parts = [summed(leaf, ones if is_uniform(name, uniform) else weights) for name, leaf in named_leaves(stacked)]
    return with_leaves(stacked, parts)


def summed(leaf: Tensor, weights: Tensor) -> Tensor:
    if leaf.dim() == 1:
        return torch.dot(weights, leaf)
    return (weights @ leaf.flatten(1)).view(leaf.shape[1:])


def is_uniform(name: str, uniform: frozenset[str]) -> bool:
    return not uniform.isdisjoint(name.split("."))


def rows_of(block: Block, uploads: Upload, arrived: Tensor, weighting: str) -> UploadRows:
    """`block` and `uploads` have only the clients that arrived; so that its size is known, the rows are of all."""
    rows = UploadRows(uploads, weights_of(weighting, block))
    if bool(arrived.all()):
        return rows
    return map_leaves(lambda leaf: leaf.new_zeros(len(arrived), *leaf.shape[1:]).index_put((arrived,), leaf), rows)


def weights_of(weighting: str, block: Block) -> Tensor:
    return block.examples if weighting == "examples" else torch.ones_like(block.examples)


def finite_rows(stacked: Tree) -> Tensor:
    """Which clients have finite values in every field [clients]."""
    finite = [_finite(leaf.flatten(1)) if leaf.dim() > 1 else leaf.isfinite() for leaf in leaves(stacked)]
    return torch.stack(finite).all(0)


def _finite(rows: Tensor) -> Tensor:
    finite = torch.linalg.vector_norm(rows, dim=1).isfinite()  # a fifth of the time of looking at every element,
    return finite if finite.all() else rows.isfinite().all(1)  # but a sum of squares may overflow
