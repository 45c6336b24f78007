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
from driftless.engine.clients import ClientStore
from driftless.engine.local import LocalTraining, Trained
from driftless.engine.outcome import Arrived, Outcome, finite_rows, outcome_of, weights_of
from driftless.engine.tree import Tree, leaves, map_leaves
from driftless.random import torch_stream


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
    outcome = outcome_of(kept_work, kept, finite, plan.weighting, plan.algorithm.uniform)
    models = kept.y if plan.keep_models else kept.y[:0].clone()  # a view would keep the memory
    return Done(outcome, kept_work.clients.tolist(), kept.client, models)


def keep_states(store: ClientStore, done: list[Done]) -> None:
    for block in done:
        store.put(block.clients, block.states)


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


def keep(work: Work, trained: Trained, rows: Tensor) -> tuple[Work, Trained]:
    kept = Work(work.t, work.clients[rows.numpy()], work.steps[rows], work.examples[rows])
    return kept, map_leaves(lambda leaf: leaf[rows], trained)


def traffic(msg: Message, upload: Upload, cohort: int, algorithm: Algorithm) -> dict[str, float]:
    """Bytes sent by and to the server in a round, from what was really sent."""
    down, up = size_in_bytes(msg), size_in_bytes(upload)
    if algorithm.full_gradient == "before":
        extra = size_in_bytes(msg.x)
        down, up = down + extra, up + extra
    return {"bytes_down": down * cohort, "bytes_up": up * cohort}


def size_in_bytes(tree: Tree) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves(tree))
