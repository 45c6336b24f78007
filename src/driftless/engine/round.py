"""One round: sample -> broadcast -> blocks -> weighted sums -> update.

Blocks are summed in block order, so neither the order of the cohort nor who computed a block changes the result. A
round is a transaction: client states are written only when the server has accepted the round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Algorithm, Client, Message, OnRequest, Round, Server, Upload, Vector
from driftless.data.federation import Federation
from driftless.engine.batches import steps_of
from driftless.engine.block import Runner, Work
from driftless.engine.client_store import ClientStore
from driftless.engine.local import LocalTraining, Trained
from driftless.engine.random import torch_stream
from driftless.engine.tree import Tree, leaves, map_leaves, named_leaves, with_leaves


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


class Task(NamedTuple):
    """What clients do in a round."""

    msg: Message
    r: Round
    blocks: list[Work]


class Finished(NamedTuple):
    """What became of a task."""

    outcomes: list[Outcome]
    """In the order of the blocks."""
    models: list[tuple[list[int], Tensor]]
    """The clients' models, if they are kept."""
    keep: Callable[[], None]
    """Write the clients' new states; without it they stay as they were."""
    cohort_gradient: OnRequest = None


class RoundResult(NamedTuple):
    server: Server | None
    """None when the round is lost: no client, or not the server, came to a finite result."""
    aggregate: Vector | None
    """Mean of the client models as far as the server can know it."""
    metrics: dict[str, float]
    skipped: list[int]
    finished: Finished


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
    threads: int
    """Of each process."""
    workers: int = 1
    compiled: bool = False
    notices: tuple[str, ...] = ()
    """What a user should hear before the run."""

    @property
    def algorithm(self) -> Algorithm:
        return self.runner.facts.step.algorithm


class Crew(Protocol):
    """Who carries a task out: this process alone, or with workers (workers.py)."""

    def carry_out(self, task: Task) -> Finished: ...


def run_round(
    plan: RoundPlan, algorithm: Algorithm, server: Server, crew: Crew, cohort: np.ndarray, t: int
) -> RoundResult:
    """`algorithm` is the run's, with the server learning rate of this round."""
    task = task_of(plan, algorithm.broadcast(server), cohort, t)
    finished = crew.carry_out(task)
    arrived = Arrived()
    for work, outcome in zip(task.blocks, finished.outcomes, strict=True):
        arrived.add(work, outcome)

    sent = traffic(task.msg, finished.outcomes[0].uploads, len(cohort), algorithm)
    lost = RoundResult(None, None, sent, arrived.skipped, finished)
    if arrived.count == 0:
        return lost
    mean, facts = arrived.means(algorithm.uniform)
    r = task.r._replace(steps=facts.steps, examples=facts.examples, cohort=arrived.count)
    r = r._replace(cohort_gradient=finished.cohort_gradient)
    new_server = algorithm.update(server, mean, r)
    # Numbers that are not vectors may be infinite on purpose: "the lowest so far" before there is one.
    if not all(bool(torch.isfinite(leaf).all()) for leaf in leaves(new_server) if leaf.dim()):
        return lost
    own = {name: float(value) for name, value in algorithm.diagnostics(new_server, mean).items()}
    metrics = sent | arrived.metrics(mean, facts) | own
    return RoundResult(new_server, task.msg.x + mean.delta, metrics, arrived.skipped, finished)


def task_of(plan: RoundPlan, msg: Message, cohort: np.ndarray, t: int) -> Task:
    x: Vector = msg.x
    lr = x.new_tensor(plan.training.lr_at(t))
    r = Round(x.new_tensor(t), lr, x, x, len(cohort), plan.federation.clients, plan.layers)
    return Task(msg, r, list(work_of(plan, cohort, t, x.dtype)))


class Alone:
    """All blocks in this process, one after the other."""

    def __init__(self, plan: RoundPlan, store: ClientStore) -> None:
        self._plan, self._store = plan, store

    def carry_out(self, task: Task) -> Finished:
        plan, r = self._plan, task.r
        gradients: list[Tensor | None] = [None] * len(task.blocks)
        if plan.algorithm.full_gradient == "before":
            gradients = [full_gradients(plan, work, task.msg.x) for work in task.blocks]
            sums = [gradient_sum(plan, work, g) for work, g in zip(task.blocks, gradients, strict=True)]
            r = r._replace(cohort_gradient=mean_gradient(sums))
        done = [
            train_block(plan, work, task.msg, self._store, r._replace(gradient=gradient))
            for work, gradient in zip(task.blocks, gradients, strict=True)
        ]
        models = [(block.clients, block.models) for block in done] if plan.keep_models else []
        return Finished(
            [block.outcome for block in done], models, lambda: keep_states(self._store, done), r.cohort_gradient
        )


class Done(NamedTuple):
    """A block whose clients have trained; clients whose update is not finite are left out."""

    outcome: Outcome
    clients: list[int]
    states: Client
    models: Tensor


def train_block(plan: RoundPlan, work: Work, msg: Message, store: ClientStore, r: Round) -> Done:
    states = store.get(work.clients.tolist(), plan.algorithm.init_client(msg.x))
    with torch_stream(plan.seed, "train", work.t, int(work.clients[0])):
        trained = plan.runner.train(work, msg, states, r)
    finite = finite_rows((trained.upload, trained.client))
    kept_work, kept = (work, trained) if bool(finite.all()) else keep(work, trained, finite)
    outcome = outcome_of(plan, kept_work, kept, finite)
    return Done(outcome, kept_work.clients.tolist(), kept.client, kept.y)


def keep_states(store: ClientStore, done: list[Done]) -> None:
    for block in done:
        store.put(block.clients, block.states)


def outcome_of(plan: RoundPlan, work: Work, trained: Trained, finite: Tensor) -> Outcome:
    weights = weights_of(plan.weighting, work)
    deltas = trained.upload.delta
    norms = deltas.norm(dim=1)
    if not torch.isfinite(norms).all():
        norms = torch.linalg.vector_norm(deltas, dim=1, dtype=torch.float64)  # too long for float32
    inverse = torch.where(norms > 0, 1 / norms, 0.0).to(deltas.dtype)
    squared = norms.square().to(work.steps.dtype)
    facts = ClientFacts(work.steps, work.examples, trained.loss, trained.accuracy, squared)
    totals = torch.stack([weights.sum().double(), norms.new_tensor(len(norms)).double(), (norms > 0).sum().double()])
    return Outcome(
        weighted_sum(trained.upload, weights, plan.algorithm.uniform),
        weighted_sum(facts, weights, PLAIN_FACTS),
        inverse @ deltas,
        torch.cat([totals, finite.double()]),
    )


def weighted_sum(stacked: Tree, weights: Tensor, uniform: frozenset[str]) -> Tree:
    """Sums over the clients of a block; fields named in `uniform` ignore the weights."""
    ones = torch.ones_like(weights)
    parts = [
        torch.tensordot(ones if is_uniform(name, uniform) else weights, leaf, dims=1)
        for name, leaf in named_leaves(stacked)
    ]
    return with_leaves(stacked, parts)


def is_uniform(name: str, uniform: frozenset[str]) -> bool:
    return not uniform.isdisjoint(name.split("."))


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


class GradientSum(NamedTuple):
    gradient: Tensor
    weight: Tensor


def gradient_sum(plan: RoundPlan, work: Work, gradients: Any) -> GradientSum:
    """Of the clients whose gradient is finite."""
    finite = torch.isfinite(gradients).all(1)
    weights = weights_of(plan.weighting, work) * finite
    return GradientSum(torch.tensordot(weights, torch.where(finite[:, None], gradients, 0.0), dims=1), weights.sum())


def mean_gradient(sums: list[GradientSum]) -> Vector:
    """The cohort's mean full-batch gradient, from the sums of the blocks in their order."""
    gradient, weight = sums[0]
    for block in sums[1:]:
        gradient, weight = gradient + block.gradient, weight + block.weight
    return gradient / weight


def finite_rows(stacked: Tree) -> Tensor:
    """Which clients have finite values in every field [clients]."""
    finite = [_finite(leaf.flatten(1)) if leaf.dim() > 1 else leaf.isfinite() for leaf in leaves(stacked)]
    return torch.stack(finite).all(0)


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
