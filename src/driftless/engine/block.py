"""Local training of a block of clients: local.py carried out, in one of two ways.

`SingleRunner` trains one client after the other. `BlockRunner` lifts the steps with vmap and takes each for all clients
of the block: padding of short minibatches has weight zero, a client that has no more steps is left as it is by a mask,
and clients that have finished long ago are left out. Both record what a step does and replay it (replay.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from driftless.algorithm import Client, Message, Round, Vector
from driftless.data.federation import Federation
from driftless.engine import augment, batches
from driftless.engine.batches import BlockPlan, Plan
from driftless.engine.dropout import fold
from driftless.engine.graph.record import Function
from driftless.engine.graph.replay import Replay, Series
from driftless.engine.local import Batch, Gradient, LocalStep, Progress, Trained
from driftless.engine.tree import Tree, leaves, map_leaves, with_leaves
from driftless.random import key63, streams

LONGEST_REPLAY = 2000
"""Operations of a step of one client from which backpropagation in C++ is faster than a list called from Python: a
recurrent layer is a loop in C++ there. For a block there is no such loop."""


class Work(NamedTuple):
    """A block's share of a round: clients, by rising numbers of steps."""

    t: int
    clients: np.ndarray
    steps: Tensor
    """K_i [clients], in the run's dtype."""
    examples: Tensor
    """n_i [clients]."""


class RunFacts(NamedTuple):
    """What runners need to know about the run."""

    step: LocalStep
    plain_gradient: Gradient
    """For one client at a time."""
    federation: Federation
    seed: int
    uses_dropout: bool


class Given(NamedTuple):
    """What clients are given for their local training."""

    shared: Tree
    """The same for all: message, t, lr and, if asked for, the cohort's gradient."""
    own: Tree
    """Each client's: state, K_i, n_i and, if asked for, its full-batch gradient at x."""

    @staticmethod
    def of(work: Work, msg: Message, states: Client, r: Round, gradient: Tensor | None) -> Given:
        shared = (msg, r.t, r.lr, *optional(r.cohort_gradient))
        return Given(shared, (states, work.steps, work.examples, *optional(gradient)))

    def seen_by(self, r: Round) -> tuple[Message, Client, Round]:
        """The arguments of an algorithm's methods; here `own` is of one client."""
        msg, t, lr, *cohort_gradient = self.shared
        client, steps, examples, *gradient = self.own
        r = r._replace(t=t, lr=lr, steps=steps, examples=examples)
        return msg, client, r._replace(gradient=first(gradient), cohort_gradient=first(cohort_gradient))


class Runner(ABC):
    """Trains the clients of a block."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self.step = facts.step
        self.replay = Replay()
        self._trees: dict[str, Tree] = {}
        """The structure of what was computed; the steps themselves work on flat lists of tensors."""

    @abstractmethod
    def gradients(self, work: Work, x: Vector) -> Tensor:
        """Full-batch gradients at x [clients, P]."""

    @abstractmethod
    def train(self, work: Work, msg: Message, states: Client, r: Round, limit: int | None = None) -> Trained:
        """All local steps of all clients; `limit` breaks off after some steps, for a trial."""

    def _begin(self, given: Given, r: Round) -> Function:
        """-> the progress before the first step."""

        def begin(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
            now = self.step.begin(*with_leaves(given, fixed).seen_by(r))
            self._trees["progress"] = structure(now)
            return leaves(now)

        return begin

    def _advance(self, given: Given, r: Round, parts: Parts) -> Function:
        """progress -> the progress one step later."""

        def advance(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
            now: Progress = with_leaves(self._trees["progress"], moving)
            minibatch, on = parts.batch(batch)
            then = leaves(self.step(now, minibatch, *with_leaves(given, fixed).seen_by(r)))
            if on is None:
                return then
            return [torch.where(on, new, old) for new, old in zip(then, moving, strict=True)]

        return advance

    def _finish(self, given: Given, r: Round) -> Function:
        """progress -> what is sent back, and the new state."""

        def finish(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
            now: Progress = with_leaves(self._trees["progress"], batch)
            result = self.step.finish(now, *with_leaves(given, fixed).seen_by(r))
            self._trees["result"] = structure(result)
            return leaves(result)

        return finish

    def _accumulate(self, parts: Parts) -> Function:
        """sum of gradients -> with a chunk's gradient, by its share of the examples, added."""

        def accumulate(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
            (total,), (share, *rest), (x,) = moving, batch, fixed
            return [self.step.accumulate(total, x, parts.batch(rest)[0], share)]

        return accumulate

    def _regularise(self, moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        return [self.step.regularise(batch[0], fixed[0])]


class Parts(NamedTuple):
    """Which tensors a minibatch comes with."""

    weights: bool
    """1 for an example, 0 for padding."""
    key: bool
    """For dropout."""
    mask: bool = False
    """Whether the client still has this step to take."""

    def batch(self, tensors: list[Tensor]) -> tuple[Batch, Tensor | None]:
        inputs, targets, *rest = tensors
        weights = rest.pop(0) if self.weights else None
        key = rest.pop(0) if self.key else None
        return Batch(inputs, targets, weights, key), first(rest)


class SingleRunner(Runner):
    """One client after the other."""

    def __init__(self, facts: RunFacts) -> None:
        super().__init__(facts)
        self.step = facts.step._replace(gradient=facts.plain_gradient)
        self.replay = Replay(LONGEST_REPLAY)

    def gradients(self, work: Work, x: Vector) -> Tensor:
        return torch.stack([self._full_gradient(int(c), work.t, x) for c in work.clients])

    def train(self, work: Work, msg: Message, states: Client, r: Round, limit: int | None = None) -> Trained:
        gradient = self.gradients(work, msg.x) if self.step.algorithm.full_gradient == "after" else r.gradient
        given = Given.of(work, msg, states, r, gradient)
        trained = [
            self._train(client, work.t, Given(given.shared, map_leaves(lambda leaf, i=i: leaf[i], given.own)), r, limit)
            for i, client in enumerate(work.clients.tolist())
        ]
        return map_leaves(lambda *parts: torch.stack(parts), *trained)

    def _train(self, client: int, t: int, given: Given, r: Round, limit: int | None) -> Trained:
        (plan,) = batch_plans(self.facts, [client], t)
        parts = Parts(False, self.facts.uses_dropout)
        name, fixed = (r.cohort, r.clients), leaves(given)
        now = self.replay.series(("begin", name), self._begin(given, r), fixed)([], [])
        now = [value.clone() for value in now]
        advance = self.replay.series(("step", name), self._advance(given, r, parts), fixed, in_place=True)
        moves = moves_of(self.facts, [client], t, [plan])
        for batch in islice(self._batches(client, plan, t, "dropout", moves), limit):
            now = advance(now, batch)
        result = self.replay.series(("finish", name), self._finish(given, r), fixed)([], now)
        progress: Progress = with_leaves(self._trees["progress"], now)
        upload, state = with_leaves(self._trees["result"], result)
        loss, accuracy = progress.loss / len(plan.count), progress.correct / int(plan.count.sum())
        return Trained(progress.y, upload, state, loss, accuracy)

    def _full_gradient(self, client: int, t: int, x: Vector) -> Vector:
        size = int(self.facts.federation.sizes[client])
        plan = batches.chunks(size)
        parts = Parts(False, self.facts.uses_dropout)
        add = self.replay.series("gradient", self._accumulate(parts), [x], in_place=True)
        now = [torch.zeros_like(x)]
        for count, batch in zip(plan.count, self._batches(client, plan, t, "full-gradient-dropout"), strict=True):
            now = add(now, [x.new_tensor(count / size), *batch])
        return self._regularise([], now, [x])[0]

    def _batches(
        self, client: int, plan: Plan, t: int, purpose: str, moves: Tensor | None = None
    ) -> Iterator[list[Tensor]]:
        federation = self.facts.federation
        key = dropout_keys(self.facts, np.array([client]), t, purpose)
        index = torch.from_numpy(plan.index + federation.offsets[client])
        for k, (rows, count) in enumerate(zip(index, plan.count.tolist(), strict=True)):
            rows = rows[:count]
            batch = [federation.inputs.index_select(0, rows), federation.targets.index_select(0, rows)]
            if moves is not None:
                batch[0] = augment.moved(batch[0], moves[k, 0, :count])
            yield batch if key is None else [*batch, fold(key[0], k)]


class BlockRunner(Runner):
    """All clients of a block at once."""

    def __init__(self, facts: RunFacts) -> None:
        super().__init__(facts)
        self.room = 0
        """Bytes that augmenting the largest minibatch needed."""

    def gradients(self, work: Work, x: Vector) -> Tensor:
        sizes = self.facts.federation.sizes[work.clients]
        stacked = batches.stack([batches.chunks(int(n)) for n in sizes], self.facts.federation.offsets[work.clients])
        parts = Parts(stacked.padded, self.facts.uses_dropout)
        add = self._series(("gradient", parts), self._accumulate(parts), [x], 1, in_place=True)
        now = [x.new_zeros(len(sizes), len(x))]
        shares = torch.from_numpy(stacked.count / sizes[:, None]).to(x.dtype)
        for k, batch in enumerate(self._batches(work, stacked, "full-gradient-dropout")):
            # A client without examples in this chunk computes on padding, which the share 0 removes.
            now = add(now, [shares[:, k].contiguous(), *batch])
        return self._series("regularise", self._regularise, [x], 1)([], now)[0]

    def train(self, work: Work, msg: Message, states: Client, r: Round, limit: int | None = None) -> Trained:
        gradient = self.gradients(work, msg.x) if self.step.algorithm.full_gradient == "after" else r.gradient
        given = Given.of(work, msg, states, r, gradient)
        plans = batch_plans(self.facts, work.clients.tolist(), work.t)
        stacked = batches.stack(plans, self.facts.federation.offsets[work.clients])
        name, fixed, shared = (r.cohort, r.clients), leaves(given), len(leaves(given.shared))

        now = self._series(("begin", name), self._begin(given, r), fixed, shared)([], [])
        now = [value.clone(memory_format=torch.contiguous_format) for value in now]
        finished = (stacked.count == 0).sum(0).tolist()
        series: dict[int, Series] = {}  # by the number of clients that have finished
        moves = moves_of(self.facts, work.clients.tolist(), work.t, plans)
        for k, batch in enumerate(islice(self._batches(work, stacked, "dropout", moves), limit)):
            start = rows_from(len(plans), finished[k])
            if finished[k] not in series:
                parts = Parts(stacked.padded, self.facts.uses_dropout, mask=finished[k] > start)
                rows = [*fixed[:shared], *(value[start:] for value in fixed[shared:])]
                f = self._advance(given, r, parts)
                series[finished[k]] = self._series(("step", name, parts), f, rows, shared, in_place=True)
            if finished[k] > start:
                batch.append(torch.from_numpy(stacked.count[:, k] > 0))
            if start == 0:
                now = series[finished[k]](now, batch)
            else:
                old = [value[start:] for value in now]
                new = series[finished[k]](old, [value[start:] for value in batch])
                old_memory = {value.untyped_storage().data_ptr() for value in old}
                for before, after in [
                    (before, after.clone() if after.untyped_storage().data_ptr() in old_memory else after)
                    for before, after in zip(old, new, strict=True)
                    if after is not before
                ]:
                    before.copy_(after)

        result = self._series(("finish", name), self._finish(given, r), fixed, shared)([], now)
        progress: Progress = with_leaves(self._trees["progress"], now)
        upload, states = with_leaves(self._trees["result"], result)
        examples = torch.from_numpy(stacked.count.sum(1))
        return Trained(progress.y, upload, states, progress.loss / work.steps, progress.correct / examples)

    def _series(self, name: Any, f: Function, fixed: list[Tensor], shared: int, in_place: bool = False) -> Series:
        """Calls of `f` lifted over clients; the first `shared` of the fixed arguments are the same for all."""

        def lifted(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
            dims = ([0] * len(moving), [0] * len(batch), [*[None] * shared, *[0] * (len(fixed) - shared)])
            return list(vmap(f, in_dims=dims, randomness="different")(moving, batch, fixed))

        return self.replay.series(name, lifted, fixed, in_place)

    def _batches(
        self, work: Work, stacked: BlockPlan, purpose: str, moves: Tensor | None = None
    ) -> Iterator[list[Tensor]]:
        """Stacked minibatches, step by step."""
        federation = self.facts.federation
        clients, steps, width = stacked.index.shape
        index = torch.from_numpy(np.ascontiguousarray(stacked.index.swapaxes(0, 1)).reshape(steps, -1))
        keys = dropout_keys(self.facts, work.clients, work.t, purpose)
        # A finished client (count 0) still computes, on one example, so that no 0/0 arises; the mask discards it.
        valid = np.ascontiguousarray(np.arange(width) < np.maximum(stacked.count, 1).T[:, :, None])
        weights = torch.from_numpy(valid).to(work.steps.dtype) if stacked.padded else None
        for k in range(steps):
            batch = [
                source.index_select(0, index[k]).view(clients, width, *source.shape[1:])
                for source in (federation.inputs, federation.targets)
            ]
            if moves is not None:
                batch[0] = augment.moved(batch[0], moves[k])
                self.room = max(self.room, augment.room(batch[0]))
            if weights is not None:
                batch.append(weights[k])
            if keys is not None:
                batch.append(fold(keys, k))
            yield batch


def rows_from(clients: int, finished: int) -> int:
    """The first client that is still computed when this many have finished: half, a quarter, ... of them remain.

    Not the exact number, since each number of clients is recorded anew.
    """
    rows = clients
    while (rows + 1) // 2 >= clients - finished and rows > 1:
        rows = (rows + 1) // 2
    return clients - rows


def batch_plans(facts: RunFacts, clients: list[int], t: int) -> list[Plan]:
    training, sizes = facts.step.training, facts.federation.sizes[clients].tolist()
    rngs = streams(facts.seed, "batches", t, clients)
    return [batches.plan(training, size, rng) for size, rng in zip(sizes, rngs, strict=True)]


def moves_of(facts: RunFacts, clients: list[int], t: int, plans: list[Plan]) -> Tensor | None:
    """How the images of all minibatches are moved, [steps, clients, width, 3]; None if they are not."""
    kind = augment.KINDS[facts.step.training.augment]
    if kind is None:
        return None
    rngs = streams(facts.seed, "augment", t, clients)
    return augment.stack([augment.draw(kind, p.index.shape, rng) for p, rng in zip(plans, rngs, strict=True)])


def dropout_keys(facts: RunFacts, clients: np.ndarray, t: int, purpose: str) -> Tensor | None:
    if not facts.uses_dropout:
        return None
    return torch.tensor([key63(facts.seed, purpose, t, int(c)) for c in clients])


def optional(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)


def first(values: Any) -> Any:
    return values[0] if len(values) else None


def structure(tree: Tree) -> Tree:
    """The tree without its numbers."""
    return map_leaves(lambda leaf: torch.empty(0), tree)
