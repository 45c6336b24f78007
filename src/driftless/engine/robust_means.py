"""Means that a minority of the clients cannot move far: one pure function a rule, on stacked uploads [clients, ...].

The joint vector of a client is all of its upload but the single numbers: the fields one after the other. Rules that
compare clients do so by this vector and then treat all fields of a client alike, so that the fields stay consistent.
Distances and norms are in double precision: those of attackers may be huge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pdist

from driftless.engine.sums import is_uniform, summed
from driftless.engine.tree import Tree, leaves, map_leaves, named_leaves, with_leaves

MOST_NUMBERS = 2**20
"""Of all clients, that are sorted or compared at a time: bounds the memory."""
ITERATIONS = 100
"""Of Weiszfeld's algorithm, at most."""
TOLERANCE = 1e-6
"""It ends when no client's influence, relative to the largest, changes by more."""
SMOOTHING = 1e-6
"""nu of the smoothed algorithm, relative to the median of the first distances."""


def weighted_mean(uploads: Tree, weights: Tensor, uniform: frozenset[str], influence: Tensor | None = None) -> Tree:
    """The mean; `influence` multiplies the weights of all fields, also of those that are averaged uniformly."""
    means: list[Tensor] = []
    for name, leaf in named_leaves(uploads):
        own = weights_of_field(name, weights, uniform)
        own = own if influence is None else own * influence.to(own)
        means.append(summed(leaf, own) / own.sum())
    return with_leaves(uploads, means)


def median(uploads: Tree) -> Tree:
    """Of each coordinate; every client counts once."""
    return map_leaves(lambda leaf: by_columns(middle, leaf), uploads)


def trimmed_mean(uploads: Tree, weights: Tensor, uniform: frozenset[str], trim: int) -> Tree:
    """Of each coordinate without its `trim` largest and smallest values; those that remain keep their weights."""

    def of_columns(values: Tensor, own: Tensor) -> Tensor:
        values, order = values.sort(dim=0, stable=True)
        kept = slice(trim, len(values) - trim)
        own = own[order[kept]]
        return (own * values[kept]).sum(0) / own.sum(0)

    means: list[Tensor] = []
    for name, leaf in named_leaves(uploads):
        own = weights_of_field(name, weights, uniform)
        means.append(by_columns(lambda values, own=own: of_columns(values, own), leaf))
    return with_leaves(uploads, means)


def multi_krum(uploads: Tree, weights: Tensor, uniform: frozenset[str], attackers: int, keep: int) -> Tree:
    """The mean of the `keep` clients with the lowest scores; of Krum, keep = 1."""
    chosen = krum_scores(uploads, attackers).argsort(stable=True)[:keep].sort().values
    return weighted_mean(map_leaves(lambda leaf: leaf[chosen], uploads), weights[chosen], uniform)


def krum_scores(uploads: Tree, attackers: int) -> Tensor:
    """The sum of the squared distances to the nearest n - attackers - 2 others, for each of the n clients."""
    distances = squared_distances(uploads)
    others = distances.fill_diagonal_(torch.inf).sort(dim=1).values
    return others[:, : len(others) - attackers - 2].sum(1)


def squared_distances(uploads: Tree) -> Tensor:
    """Between the joint vectors of all pairs of clients [clients, clients]."""
    n = number_of_clients(uploads)
    rows, columns = torch.triu_indices(n, n, 1)
    pairs = torch.zeros(len(rows), dtype=torch.float64)
    for part in parts_of_vectors(uploads):
        pairs += pdist(part.double()).square().cpu()
    distances = torch.zeros(n, n, dtype=torch.float64)
    distances[rows, columns] = distances[columns, rows] = pairs
    return distances


def geometric_median(uploads: Tree, weights: Tensor, uniform: frozenset[str]) -> Tree:
    """The point with the least sum of weighted distances to the joint vectors, by smoothed Weiszfeld iterations.

    A client's influence is 1/distance, relative to the largest. They begin at the median of each coordinate, which
    attackers cannot move far either.
    """
    first = distances_to(median(uploads), uploads)
    smallest = max(SMOOTHING * float(middle(first)), torch.finfo(torch.float64).tiny)
    influence, before = influence_of(first, smallest), torch.zeros_like(first)
    for _ in range(ITERATIONS):
        if (influence - before).abs().max() <= TOLERANCE:
            break
        centre = weighted_mean(uploads, weights, uniform, influence)
        influence, before = influence_of(distances_to(centre, uploads), smallest), influence
    return weighted_mean(uploads, weights, uniform, influence)


def influence_of(distances: Tensor, smallest: float) -> Tensor:
    distances = distances.clamp(min=smallest)
    return distances.min() / distances


def distances_to(centre: Tree, uploads: Tree) -> Tensor:
    """Of the joint vectors from the centre [clients]; with memory for one vector."""
    total = torch.zeros(number_of_clients(uploads), dtype=torch.float64)
    for point, rows in zip(leaves(centre), leaves(uploads), strict=True):
        if is_vector(rows):
            total += torch.stack([norm(row - point) for row in rows]).square().cpu()
    return total.sqrt()


def bounded_mean(
    uploads: Tree, weights: Tensor, uniform: frozenset[str], bound: float | None
) -> tuple[Tree, float, float]:
    """The mean of the joint vectors, each scaled down to norm `bound` (None: the median of the norms).

    Also the bound, and the share of clients that were scaled down. Single numbers are averaged as they are.
    """
    norms = joint_norms(uploads)
    bound = float(middle(norms)) if bound is None else bound
    scale = torch.where(norms > bound, bound / norms, 1.0)
    means: list[Tensor] = []
    for name, leaf in named_leaves(uploads):
        own = weights_of_field(name, weights, uniform)
        means.append(summed(leaf, own * scale.to(own) if is_vector(leaf) else own) / own.sum())
    return with_leaves(uploads, means), bound, float((norms > bound).double().mean())


def joint_norms(uploads: Tree) -> Tensor:
    total = torch.zeros(number_of_clients(uploads), dtype=torch.float64)
    for rows in leaves(uploads):
        if is_vector(rows):
            total += torch.stack([norm(row) for row in rows]).square().cpu()
    return total.sqrt()


def norm(vector: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vector, dtype=torch.float64)


def middle(values: Tensor) -> Tensor:
    """The median over the first dimension; of an even number, the mean of the two in the middle."""
    n, on_cpu = len(values), values.device.type == "cpu"  # there NumPy takes a third of the time of torch
    values = torch.from_numpy(np.sort(values.numpy(), axis=0)) if on_cpu else values.sort(dim=0).values
    return (values[(n - 1) // 2] + values[n // 2]) / 2


def by_columns(f: Callable[[Tensor], Tensor], leaf: Tensor) -> Tensor:
    """f of the columns of a leaf, as many at a time as the memory should hold."""
    flat = leaf.flatten(1) if leaf.dim() > 1 else leaf[:, None]
    return torch.cat([f(part) for part in flat.split(columns_at_a_time(len(leaf)), dim=1)]).view(leaf.shape[1:])


def parts_of_vectors(uploads: Tree) -> Iterator[Tensor]:
    """The joint vectors, some columns at a time."""
    for rows in leaves(uploads):
        if is_vector(rows):
            yield from rows.flatten(1).split(columns_at_a_time(len(rows)), dim=1)


def columns_at_a_time(clients: int) -> int:
    return max(1, MOST_NUMBERS // clients)


def is_vector(stacked: Tensor) -> bool:
    """Whether a field is part of the joint vector: an algorithm may also send an empty one."""
    return stacked.dim() > 1 and stacked.numel() > 0


def number_of_clients(uploads: Tree) -> int:
    return len(leaves(uploads)[0])


def weights_of_field(name: str, weights: Tensor, uniform: frozenset[str]) -> Tensor:
    return torch.ones_like(weights) if is_uniform(name, uniform) else weights
