"""Many clients at once: local.py lifted with vmap, for clients with different numbers of steps and examples.

Two runners with one signature. `SingleRunner` trains one client after the other, exactly as local.py reads.
`BlockRunner` stacks the clients of a block and takes each local step for all of them; a client that has fewer steps
than the longest of its block is left as it is by a mask, and padding of short minibatches has weight zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from driftless.algorithm import Client, Local, Message, Round, Vector
from driftless.data.federation import Federation
from driftless.engine import batches
from driftless.engine.batches import Plan
from driftless.engine.dropout import fold
from driftless.engine.local import Batch, LocalStep, Seen, Trained, full_gradient, train_client
from driftless.engine.random import key63, stream
from driftless.engine.tree import map_leaves


class Work(NamedTuple):
    """A block's share of a round."""

    t: int
    clients: np.ndarray
    steps: Tensor
    """K_i [clients], in the run's dtype."""
    examples: Tensor
    """n_i [clients]."""


class RunFacts(NamedTuple):
    """What runners need to know about the run."""

    step: LocalStep
    federation: Federation
    seed: int
    uses_dropout: bool


OwnRound = tuple[Tensor, ...]
"""What differs between the clients of a round: (K_i, n_i) or (K_i, n_i, full-batch gradient at x)."""


class SingleRunner:
    """One client after the other: the plain specification."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts

    def gradients(self, work: Work, x: Vector) -> Tensor:
        """Full-batch gradients at x [clients, P]."""
        return torch.stack([self._full_gradient(int(c), work.t, x) for c in work.clients])

    def train(self, work: Work, msg: Message, states: Client, r: Round) -> Trained:
        trained = [self._train(i, int(c), work, msg, states, r) for i, c in enumerate(work.clients)]
        return map_leaves(lambda *parts: torch.stack(parts), *trained)

    def _train(self, i: int, client: int, work: Work, msg: Message, states: Client, r: Round) -> Trained:
        step = self.facts.step
        state = map_leaves(lambda leaf: leaf[i], states)
        r = r._replace(steps=work.steps[i], examples=work.examples[i])
        if step.algorithm.full_gradient == "after":
            r = r._replace(gradient=self._full_gradient(client, work.t, msg.x))
        elif r.gradient is not None:
            r = r._replace(gradient=r.gradient[i])
        plan = batch_plan(self.facts, client, work.t)
        return train_client(step, list(self._batches(client, plan, work.t, "dropout")), msg, state, r)

    def _full_gradient(self, client: int, t: int, x: Vector) -> Vector:
        plan = batches.chunks(int(self.facts.federation.sizes[client]))
        return full_gradient(self.facts.step, x, list(self._batches(client, plan, t, "full-gradient-dropout")))

    def _batches(self, client: int, plan: Plan, t: int, purpose: str) -> Iterator[Batch]:
        inputs, targets = self.facts.federation.client(client)
        key = dropout_keys(self.facts, np.array([client]), t, purpose)
        for k, (index, count) in enumerate(zip(plan.index, plan.count, strict=True)):
            rows = torch.from_numpy(index[:count])
            yield Batch(inputs[rows], targets[rows], key=None if key is None else fold(key[0], k))


class BlockRunner:
    """All clients of a block at once."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts

    def gradients(self, work: Work, x: Vector) -> Tensor:
        """Full-batch gradients at x [clients, P]."""
        sizes = self.facts.federation.sizes
        plans = [batches.chunks(int(sizes[c])) for c in work.clients]
        raw = x.new_zeros(len(plans), len(x))
        at = vmap(self.facts.step.gradient, in_dims=(None, self._dims(plans)), randomness="different")
        for batch, count in self._batches(work, plans, "full-gradient-dropout"):
            # A client without examples in this chunk computes on padding, which the weight 0 removes.
            raw = raw + at(x, batch)[0] * (count.to(x.dtype) / work.examples)[:, None]
        return vmap(lambda g: self.facts.step.regularise(g, x))(raw)

    def train(self, work: Work, msg: Message, states: Client, r: Round) -> Trained:
        step, algorithm = self.facts.step, self.facts.step.algorithm
        gradient = self.gradients(work, msg.x) if algorithm.full_gradient == "after" else r.gradient
        own = (work.steps, work.examples) if gradient is None else (work.steps, work.examples, gradient)
        plans = [batch_plan(self.facts, int(c), work.t) for c in work.clients]

        # What is the same for all clients (msg, most of r) is closed over, which spares vmap flattening it each step.
        def take_step(y: Vector, local: Local, batch: Batch, state: Client, own: OwnRound):
            return step(y, local, batch, msg, state, mine(r, own))

        def finish(y: Vector, local: Local, state: Client, own: OwnRound):
            return algorithm.upload(y, local, msg, state, mine(r, own))

        take_step = vmap(take_step, in_dims=(0, 0, self._dims(plans), 0, 0), randomness="different")
        y = msg.x.expand(len(plans), -1)
        local = vmap(lambda state, own: algorithm.init_local(msg, state, mine(r, own)))(states, own)
        seen: list[Seen] = []
        counts: list[Tensor] = []
        equal = len({len(p.index) for p in plans}) == 1
        for batch, count in self._batches(work, plans, "dropout"):
            new_y, new_local, at_batch = take_step(y, local, batch, states, own)
            seen.append(at_batch)
            counts.append(count)
            if equal:
                y, local = new_y, new_local
            else:
                on = count > 0
                y, local = map_leaves(lambda new, old, on=on: where(on, new, old), (new_y, new_local), (y, local))
        upload, states = vmap(finish)(y, local, states, own)
        return Trained(y, upload, states, *summary(seen, torch.stack(counts, 1), y.dtype))

    def _batches(self, work: Work, plans: list[Plan], purpose: str) -> Iterator[tuple[Batch, Tensor]]:
        """Stacked batches step by step, with the number of examples of each client's batch [clients]."""
        federation = self.facts.federation
        stacked = batches.stack(plans, federation.offsets[work.clients])
        index, counts = stacked.index, stacked.count
        padded = self._dims(plans).weights is not None
        keys = dropout_keys(self.facts, work.clients, work.t, purpose)
        position = torch.arange(index.shape[2])
        for k in range(index.shape[1]):
            rows, count = torch.from_numpy(index[:, k]), torch.from_numpy(counts[:, k])
            # A finished client (count 0) still computes, on one example, so that no 0/0 arises; the mask discards it.
            weights = (position < count.clamp(min=1)[:, None]).to(work.steps.dtype) if padded else None
            key = None if keys is None else fold(keys, k)
            yield Batch(federation.inputs[rows], federation.targets[rows], weights, key), count

    def _dims(self, plans: list[Plan]) -> Batch:
        """Which parts of a stacked batch exist, as vmap's in_dims."""
        widths = {p.index.shape[1] for p in plans}
        padded = len(widths) > 1 or any((p.count != p.index.shape[1]).any() for p in plans)
        return Batch(0, 0, 0 if padded else None, 0 if self.facts.uses_dropout else None)  # pyright: ignore


def batch_plan(facts: RunFacts, client: int, t: int) -> Plan:
    rng = stream(facts.seed, "batches", t, client)
    return batches.plan(facts.step.training, int(facts.federation.sizes[client]), rng)


def dropout_keys(facts: RunFacts, clients: np.ndarray, t: int, purpose: str) -> Tensor | None:
    if not facts.uses_dropout:
        return None
    return torch.tensor([key63(facts.seed, purpose, t, int(c)) for c in clients])


def mine(r: Round, own: OwnRound) -> Round:
    """The round as one client sees it."""
    steps, examples, *gradient = own
    return r._replace(steps=steps, examples=examples, gradient=gradient[0] if gradient else None)


def summary(seen: list[Seen], counts: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Mean loss and accuracy [clients] over the local steps; `counts` [clients, steps] says what is padding."""
    loss = torch.stack([s.loss for s in seen], 1)
    steps = counts > 0
    loss = torch.where(steps, loss, 0.0).sum(1) / steps.sum(1)
    hits = torch.stack([s.hits for s in seen], 1)  # [clients, steps, width, ...]
    if hits.numel() == 0:
        return loss, torch.full_like(loss, torch.nan)
    if bool((counts == hits.shape[2]).all()):  # no padding, the usual case
        return loss, hits.flatten(1).to(dtype).mean(1)
    each = hits.flatten(3).to(dtype).mean(3) if hits.dim() > 3 else hits.to(dtype)
    valid = torch.arange(each.shape[2]) < counts[:, :, None]
    return loss, torch.where(valid, each, 0.0).sum((1, 2)) / counts.sum(1)


def where(active: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Row by row: the new value for active clients."""
    return torch.where(active.reshape(-1, *[1] * (new.dim() - 1)), new, old)
