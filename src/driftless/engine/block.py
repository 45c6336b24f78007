"""All clients of a block at once: the local step of local.py, lifted over clients with vmap.

Padding of short minibatches has weight zero. A client that has no more steps is left unchanged by a mask, and when half
of the block has finished, the block continues without that half.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from driftless.algorithm import Client, Message, Round, Vector
from driftless.engine.graph.replay import Replay
from driftless.engine.local import Batch, LocalStep, Progress, Trained, loss_gradient, regularised
from driftless.engine.minibatches import Block, Workload, block_batches, block_chunks
from driftless.engine.tree import Tree, like, map_leaves, parts_of, structure

OF_ONE_CLIENT = ("steps", "examples", "gradient")
"""Fields of `Round` that differ between the clients of a block."""
Given = tuple[Message, Client, Round]
"""What a client trains with besides its minibatches."""


class BlockTrainer:
    def __init__(self, work: Workload, replay: bool = True) -> None:
        self.work = work
        self._replay = Replay(enabled=replay)
        self._step = LocalStep(work.algorithm, loss_gradient(work.model, work.loss), work.training)

    def gradients(self, block: Block, x: Vector) -> Tensor:
        """Full-batch gradients at x [clients, P]."""
        plan, chunks = block_chunks(self.work, block)
        shares = torch.from_numpy(plan.count / plan.count.sum(1, keepdims=True)).to(x)
        add = self._replay.series("gradient", lifted(self._accumulate), x, in_place=True)
        total = x.new_zeros(len(block.clients), len(x))
        for k in range(shares.shape[1]):
            # A client without examples in this chunk computes on padding, which the share 0 removes.
            total = add(total, (chunks.gather(k, 0), shares[:, k].contiguous()))
        regularise = self._replay.series("regularise", lifted(self._regularise), x)
        return regularise((), total)

    def train(self, block: Block, msg: Message, states: Client, r: Round) -> Trained:
        """All local steps of the block's clients; of `r`, the fields of one client are stacked."""
        if self.work.algorithm.full_gradient == "after":
            r = r._replace(gradient=self.gradients(block, msg.x))
        given: Given = (msg, states, r)
        kind = structure(given)
        plan, batches = block_batches(self.work, block)
        finished = (plan.count == 0).sum(0).tolist()
        clients = len(block.clients)

        now: Progress = self._series("begin", self._begin, given, kind)((), ())
        now = map_leaves(lambda leaf: leaf.clone(memory_format=torch.contiguous_format), now)
        left: list[Progress] = []
        """Clients that have left the block, in their order."""
        first = 0
        advance = self._series("step", self._advance, given, kind, in_place=True)
        for k in range(plan.count.shape[1]):
            if (start := first_computed(clients, finished[k])) > first:
                left.append(map_leaves(lambda leaf, n=start - first: leaf[:n], now))
                now = map_leaves(lambda leaf, n=start - first: leaf[n:].clone(), now)
                first, rest = start, rows_from(given, start)
                advance = self._series("step", self._advance, rest, structure(rest), in_place=True)
            active = torch.from_numpy(plan.count[first:, k] > 0).to(msg.x.device) if finished[k] > first else None
            now = advance(now, (batches.gather(k, first), active))
        if left:
            now = map_leaves(lambda *parts: torch.cat(parts), *left, now)

        upload, states = self._series("finish", self._finish, given, kind)((), now)
        examples = torch.from_numpy(plan.count.sum(1)).to(msg.x.device)
        return Trained(now.y, upload, states, now.loss / block.steps, now.correct / examples)

    # What is recorded and replayed, for one client: (what changes, what is new in this call, what stays the same).

    def _begin(self, _: tuple[()], __: tuple[()], given: Given) -> Progress:
        return self._step.begin(*given)

    def _advance(self, now: Progress, batch: tuple[Batch, Tensor | None], given: Given) -> Progress:
        minibatch, active = batch
        then = self._step(now, minibatch, *given)
        return then if active is None else map_leaves(lambda new, old: torch.where(active, new, old), then, now)

    def _finish(self, _: tuple[()], now: Progress, given: Given) -> tuple[Any, Any]:
        return self._step.finish(now, *given)

    def _accumulate(self, total: Vector, chunk: tuple[Batch, Tensor], x: Vector) -> Vector:
        return self._step.accumulate(total, x, *chunk)

    def _regularise(self, _: tuple[()], total: Vector, x: Vector) -> Vector:
        return regularised(total, x, self.work.training)

    def _series(self, name: str, f: Callable[..., Tree], given: Given, kind: Hashable, in_place: bool = False):
        return self._replay.series(name, lifted(f, dims_of_given), given, in_place, kind)


def lifted(f: Callable[..., Tree], dims_of_fixed: Callable[[Tree], Any] = lambda _: None) -> Callable[..., Tree]:
    """`f` for all clients of a block; `dims_of_fixed` says which of the last argument's tensors have a row for each."""

    def f_of_block(changing: Tree, new: Tree, fixed: Tree) -> Tree:
        dims = (dims_of(changing, 0), dims_of(new, 0), dims_of_fixed(fixed))
        return vmap(f, in_dims=dims, randomness="error")(changing, new, fixed)

    return f_of_block


def dims_of(tree: Tree, dim: int | None) -> Any:
    """vmap's in_dims for a tree; what is no tensor has none."""
    if isinstance(tree, (tuple, dict)):
        return like(tree, [dims_of(part, dim) for part in parts_of(tree)])
    return dim if isinstance(tree, Tensor) else None


def dims_of_given(given: Given) -> Any:
    msg, states, r = given
    of_round = Round(*(dims_of(value, 0 if name in OF_ONE_CLIENT else None) for name, value in r._asdict().items()))
    return dims_of(msg, None), dims_of(states, 0), of_round


def rows_from(given: Given, first: int) -> Given:
    """The same for the clients from `first` on."""
    msg, states, r = given
    own = {name: value[first:] for name in OF_ONE_CLIENT if (value := getattr(r, name)) is not None}
    return msg, map_leaves(lambda leaf: leaf[first:], states), r._replace(**own)


def first_computed(clients: int, finished: int) -> int:
    """The first client that is still computed when this many have finished: half, a quarter, ... of them remain.

    Not the exact number, since each number of clients is recorded anew.
    """
    rows = clients
    while (rows + 1) // 2 >= clients - finished and rows > 1:
        rows = (rows + 1) // 2
    return clients - rows
