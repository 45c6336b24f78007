"""One round: sample -> broadcast -> blocks -> weighted sums -> update.

Blocks are summed in block order, so neither the order of the cohort nor who computed a block changes the result. A
round is a transaction: client states are written only when the server has accepted the round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Algorithm, Client, Message, Round, Server, Upload, Vector
from driftless.data.federation import Federation
from driftless.engine.batches import steps_of
from driftless.engine.block import Runner, Work
from driftless.engine.client_store import ClientStore
from driftless.engine.local import LocalTraining, Trained
from driftless.engine.random import torch_stream
from driftless.engine.tree import Tree, leaves, map_leaves, named_leaves, with_leaves


class Mean:
    """A streaming mean over clients; fields named in `uniform` ignore the weights."""

    def __init__(self, uniform: frozenset[str]) -> None:
        self._uniform = uniform
        self._sums: list[Tensor] | None = None
        self._weight = 0.0
        self._count = 0

    def add(self, stacked: Tree, weights: Tensor) -> None:
        """Add a block [clients, ...] with one weight a client."""
        ones = torch.ones_like(weights)
        parts = [
            torch.tensordot(ones if self._is_uniform(name) else weights, leaf, dims=1)
            for name, leaf in named_leaves(stacked)
        ]
        self._sums = parts if self._sums is None else [s + p for s, p in zip(self._sums, parts, strict=True)]
        self._weight += float(weights.sum())
        self._count += len(weights)

    def value(self, like: Tree) -> Tree:
        """The mean, in the structure of `like`."""
        assert self._sums is not None
        names = [name for name, _ in named_leaves(like)]
        totals = [self._count if self._is_uniform(name) else self._weight for name in names]
        return with_leaves(like, [s / total for s, total in zip(self._sums, totals, strict=True)])

    def _is_uniform(self, name: str) -> bool:
        return not self._uniform.isdisjoint(name.split("."))


class ClientFacts(NamedTuple):
    """Numbers of each client [clients], or their means; of steps and examples always the plain mean."""

    steps: Tensor
    examples: Tensor
    loss: Tensor
    accuracy: Tensor
    squared_norm: Tensor
    """Of the update that was sent."""


class Arrived:
    """What came back from the cohort so far: streaming means, and the clients' new states and models."""

    def __init__(self, uniform: frozenset[str], weighting: str, keep_models: bool) -> None:
        self._weighting = weighting
        self._keep_models = keep_models
        self._uploads, self._facts = Mean(uniform), Mean(frozenset({"steps", "examples"}))
        self._unit_sum: Tensor | float = 0.0
        self._moved = 0
        self.example: Upload = ()
        """One client's upload, for its structure and size."""
        self.states: list[tuple[list[int], Client]] = []
        self.models: list[tuple[list[int], Tensor]] = []
        self.skipped: list[int] = []
        """Clients that are left out because their update was not finite."""
        self.count = 0

    def add(self, work: Work, trained: Trained) -> None:
        finite = finite_rows((trained.upload, trained.client))
        self.skipped += work.clients[~finite.numpy()].tolist()
        if not finite.any():
            return
        if not finite.all():
            work, trained = keep(work, trained, finite)
        self.example = map_leaves(lambda leaf: leaf[0], trained.upload)
        weights = weights_of(self._weighting, work)
        self._uploads.add(trained.upload, weights)
        norms = self._add_directions(trained.upload.delta)
        facts = ClientFacts(
            work.steps, work.examples, trained.loss, trained.accuracy, norms.square().to(work.steps.dtype)
        )
        self._facts.add(facts, weights)
        clients = work.clients.tolist()
        self.states.append((clients, trained.client))
        if self._keep_models:
            self.models.append((clients, trained.y))
        self.count += len(clients)

    def _add_directions(self, deltas: Tensor) -> Tensor:
        """Sum the unit vectors of the updates; returns the norms [clients]."""
        norms = deltas.norm(dim=1)
        if not torch.isfinite(norms).all():
            norms = torch.linalg.vector_norm(deltas, dim=1, dtype=torch.float64)  # too long for float32
        inverse = torch.where(norms > 0, 1 / norms, 0.0).to(deltas.dtype)
        self._unit_sum = self._unit_sum + inverse @ deltas
        self._moved += int((norms > 0).sum())
        return norms

    def means(self) -> tuple[Upload, ClientFacts]:
        number = torch.zeros(())
        return self._uploads.value(self.example), self._facts.value(ClientFacts(*[number] * len(ClientFacts._fields)))

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
        if self._moved > 1:
            # The squared length of the sum of unit vectors is their number plus twice the sum of pairwise cosines.
            pairs = torch.as_tensor(self._unit_sum).square().sum() - self._moved
            metrics["cosine"] = pairs / (self._moved * (self._moved - 1))
        return {name: float(value) for name, value in metrics.items()}


class RoundResult(NamedTuple):
    server: Server | None
    """None when the round is lost: no client, or not the server, came to a finite result."""
    aggregate: Vector | None
    """Mean of the client models as far as the server can know it."""
    metrics: dict[str, float]
    arrived: Arrived


@dataclass(frozen=True)
class RoundPlan:
    """What is fixed for a whole run."""

    runner: Runner
    federation: Federation
    training: LocalTraining
    weighting: str
    block_size: int
    layers: tuple[slice, ...]
    seed: int
    keep_models: bool
    """Whether the clients' models are needed after the round (inference = clients)."""


def run_round(
    plan: RoundPlan, algorithm: Algorithm, server: Server, store: ClientStore, cohort: np.ndarray, t: int
) -> RoundResult:
    """`algorithm` is the run's, with the server learning rate of this round."""
    msg = algorithm.broadcast(server)
    x: Vector = msg.x
    lr = x.new_tensor(plan.training.lr_at(t))
    r = Round(x.new_tensor(t), lr, x, x, len(cohort), plan.federation.clients, plan.layers)
    blocks = list(work_of(plan, cohort, t, x.dtype))
    gradients: list[Tensor | None] = [None] * len(blocks)
    if algorithm.full_gradient == "before":
        gradients = [full_gradients(plan, work, x) for work in blocks]
        r = r._replace(cohort_gradient=mean_gradient(plan, blocks, gradients))

    arrived = Arrived(algorithm.uniform, plan.weighting, plan.keep_models)
    initial = algorithm.init_client(x)
    for work, gradient in zip(blocks, gradients, strict=True):
        states = store.get(work.clients.tolist(), initial)
        with torch_stream(plan.seed, "train", t, int(work.clients[0])):
            arrived.add(work, plan.runner.train(work, msg, states, r._replace(gradient=gradient)))

    sent = traffic(msg, arrived.example, len(cohort), algorithm)
    if arrived.count == 0:
        return RoundResult(None, None, sent, arrived)
    mean, facts = arrived.means()
    r = r._replace(steps=facts.steps, examples=facts.examples, cohort=arrived.count, gradient=None)
    new_server = algorithm.update(server, mean, r)
    # Numbers that are not vectors may be infinite on purpose: "the lowest so far" before there is one.
    if not all(bool(torch.isfinite(leaf).all()) for leaf in leaves(new_server) if leaf.dim()):
        return RoundResult(None, None, sent, arrived)
    own = {name: float(value) for name, value in algorithm.diagnostics(new_server, mean).items()}
    return RoundResult(new_server, x + mean.delta, sent | arrived.metrics(mean, facts) | own, arrived)


def work_of(plan: RoundPlan, cohort: np.ndarray, t: int, dtype: torch.dtype) -> Iterator[Work]:
    """The cohort in blocks, ordered by the number of steps (then by client) so that little is masked."""
    examples = plan.federation.sizes[cohort]
    steps = steps_of(plan.training, examples)
    order = np.lexsort((cohort, examples, steps))
    for start in range(0, len(order), plan.block_size):
        part = order[start : start + plan.block_size]
        yield Work(t, cohort[part], torch.from_numpy(steps[part]).to(dtype), torch.from_numpy(examples[part]).to(dtype))


def full_gradients(plan: RoundPlan, work: Work, x: Vector) -> Tensor:
    with torch_stream(plan.seed, "full-gradient", work.t, int(work.clients[0])):
        return plan.runner.gradients(work, x)


def mean_gradient(plan: RoundPlan, blocks: list[Work], gradients: list[Any]) -> Vector:
    """The cohort's mean full-batch gradient, of the clients whose gradient is finite."""
    mean = Mean(frozenset())
    for work, gradient in zip(blocks, gradients, strict=True):
        finite = torch.isfinite(gradient).all(1)
        mean.add(torch.where(finite[:, None], gradient, 0.0), weights_of(plan.weighting, work) * finite)
    return mean.value(gradients[0][0])


def finite_rows(stacked: Tree) -> Tensor:
    """Which clients have finite values in every field [clients]."""
    return torch.stack([_finite(leaf.flatten(1)) if leaf.dim() > 1 else leaf.isfinite() for leaf in leaves(stacked)]).all(0)


def _finite(rows: Tensor) -> Tensor:
    finite = torch.linalg.vector_norm(rows, dim=1).isfinite()  # a fifth of the time of looking at every element,
    return finite if finite.all() else rows.isfinite().all(1)  # but a sum of squares may overflow


def keep(work: Work, trained: Trained, rows: Tensor) -> tuple[Work, Trained]:
    kept = Work(work.t, work.clients[rows.numpy()], work.steps[rows], work.examples[rows])
    return kept, map_leaves(lambda leaf: leaf[rows], trained)


def weights_of(weighting: str, work: Work) -> Tensor:
    return work.examples if weighting == "examples" else torch.ones_like(work.examples)


def traffic(msg: Message, upload: Upload, cohort: int, algorithm: Algorithm) -> dict[str, float]:
    """Bytes sent by and to the server in a round, from what was really sent."""
    down, up = size_in_bytes(msg), size_in_bytes(upload)
    if algorithm.full_gradient == "before":
        extra = size_in_bytes(msg.x)
        down, up = down + extra, up + extra
    return {"bytes_down": down * cohort, "bytes_up": up * cohort}


def size_in_bytes(tree: Tree) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves(tree))
