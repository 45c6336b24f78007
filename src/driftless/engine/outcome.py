"""What comes back from a block of clients: sums, never one client's numbers, and the means they add up to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Upload
from driftless.engine.block import Work
from driftless.engine.local import Trained
from driftless.engine.tree import Tree, leaves, named_leaves, with_leaves


class ClientFacts(NamedTuple):
    """Numbers of each client [clients], their sums, or their means; of steps and examples always the plain mean."""

    steps: Tensor
    examples: Tensor
    loss: Tensor
    accuracy: Tensor
    squared_norm: Tensor
    """Of the update that was sent."""


PLAIN_FACTS = frozenset({"steps", "examples"})


class Outcome(NamedTuple):
    """What the server gets to know of a block: sums over its clients."""

    uploads: Upload
    facts: ClientFacts
    directions: Tensor
    """The sum of the unit vectors of the updates."""
    totals: Tensor
    """[3 + clients], float64: sum of the weights, number of clients that arrived, number of those that moved; then 1
    for each client that arrived, 0 for one that is left out because its update was not finite."""

    @property
    def finite(self) -> np.ndarray:
        return self.totals[3:].numpy() > 0


class Arrived:
    """What came back from the cohort so far."""

    def __init__(self) -> None:
        self._sums: list[Tensor] = []
        self._like: tuple[Upload, ClientFacts, Tensor] | None = None
        self._totals = torch.zeros(3, dtype=torch.float64)
        self.skipped: list[int] = []
        """Clients that are left out because their update was not finite."""

    def add(self, work: Work, outcome: Outcome) -> None:
        self.skipped += work.clients[~outcome.finite].tolist()
        if not outcome.finite.any():
            return
        self._like = (outcome.uploads, outcome.facts, outcome.directions)
        parts = leaves(self._like)
        self._sums = [s + p for s, p in zip(self._sums, parts, strict=True)] if self._sums else parts
        self._totals = self._totals + outcome.totals[:3]

    @property
    def count(self) -> int:
        return int(self._totals[1])

    def means(self, uniform: frozenset[str]) -> tuple[Upload, ClientFacts]:
        uploads, facts, _ = with_leaves(self._like, self._sums)
        return self._mean(uploads, uniform), self._mean(facts, PLAIN_FACTS)

    def _mean(self, sums: Tree, uniform: frozenset[str]) -> Tree:
        weight, count = float(self._totals[0]), self.count
        named = named_leaves(sums)
        return with_leaves(sums, [leaf / (count if is_uniform(name, uniform) else weight) for name, leaf in named])

    def metrics(self, mean: Upload, facts: ClientFacts) -> dict[str, float]:
        """What the cohort's updates look like, in O(cohort x parameters)."""
        spread = facts.squared_norm - mean.delta.square().sum()
        noise = 16 * torch.finfo(spread.dtype).eps * facts.squared_norm  # what rounding leaves of equal updates
        spread = torch.where(spread > noise, spread, 0.0)
        metrics = {"train_loss": facts.loss, "norm_update": torch.linalg.vector_norm(mean.delta, dtype=torch.float64)}
        if torch.isfinite(facts.squared_norm):
            metrics["drift"] = spread.sqrt()
        if not torch.isnan(facts.accuracy):
            metrics["train_accuracy"] = facts.accuracy
        moved = int(self._totals[2])
        if moved > 1:
            # The squared length of the sum of unit vectors is their number plus twice the sum of pairwise cosines.
            pairs = self._sums[-1].square().sum() - moved
            metrics["cosine"] = pairs / (moved * (moved - 1))
        return {name: float(value) for name, value in metrics.items()}


def outcome_of(work: Work, trained: Trained, finite: Tensor, weighting: str, uniform: frozenset[str]) -> Outcome:
    """`finite`: which clients of the block arrived; the others are not in `work` and `trained` any more."""
    weights = weights_of(weighting, work)
    deltas = trained.upload.delta
    norms = deltas.norm(dim=1)
    if not torch.isfinite(norms).all():
        norms = torch.linalg.vector_norm(deltas, dim=1, dtype=torch.float64)  # too long for float32
    inverse = torch.where(norms > 0, 1 / norms, 0.0).to(deltas.dtype)
    squared = norms.square().to(work.steps.dtype)
    facts = ClientFacts(work.steps, work.examples, trained.loss, trained.accuracy, squared)
    totals = torch.stack([weights.sum().double(), norms.new_tensor(len(norms)).double(), (norms > 0).sum().double()])
    return Outcome(
        weighted_sum(trained.upload, weights, uniform),
        weighted_sum(facts, weights, PLAIN_FACTS),
        inverse @ deltas,
        torch.cat([totals, finite.double()]),
    )


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


def weights_of(weighting: str, work: Work) -> Tensor:
    return work.examples if weighting == "examples" else torch.ones_like(work.examples)


def finite_rows(stacked: Tree) -> Tensor:
    """Which clients have finite values in every field [clients]."""
    finite = [_finite(leaf.flatten(1)) if leaf.dim() > 1 else leaf.isfinite() for leaf in leaves(stacked)]
    return torch.stack(finite).all(0)


def _finite(rows: Tensor) -> Tensor:
    finite = torch.linalg.vector_norm(rows, dim=1).isfinite()  # a fifth of the time of looking at every element,
    return finite if finite.all() else rows.isfinite().all(1)  # but a sum of squares may overflow
