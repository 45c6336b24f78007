"""The minibatches of a round, gathered from the federation's tensors: of one client, or of a block of clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Algorithm
from driftless.data.federation import Federation
from driftless.data.inputs import cast_floats, map_inputs, select
from driftless.engine import augment, batches
from driftless.engine.attacks import wrong_labels
from driftless.engine.batches import BlockPlan, Plan
from driftless.engine.device import moved, moved_inputs
from driftless.engine.dropout import fold
from driftless.engine.flat import FlatModel
from driftless.engine.local import Batch, LocalTraining
from driftless.engine.losses import Loss
from driftless.random import key63, streams


class Workload(NamedTuple):
    """Who trains what on which data: the same for all rounds of a run."""

    algorithm: Algorithm
    model: FlatModel
    loss: Loss
    training: LocalTraining
    federation: Federation
    seed: int
    mislabelled: np.ndarray | None = None
    """[clients], bool: attackers who train on wrong labels; None: there are none."""


class Block(NamedTuple):
    """Clients of a round that are trained together, by rising numbers of steps."""

    t: int
    clients: np.ndarray
    steps: Tensor
    """K_i [clients], in the run's dtype."""
    examples: Tensor
    """n_i [clients]."""


def block_of(work: Workload, clients: np.ndarray, t: int, x: Tensor) -> Block:
    """Numbers are of the type and device of x."""
    examples = work.federation.sizes[clients]
    steps = batches.steps_of(work.training.in_round(t), examples)
    return Block(t, clients, torch.from_numpy(steps).to(x), torch.from_numpy(examples).to(x))


def plans_of(work: Workload, clients: list[int], t: int) -> list[Plan]:
    sizes = work.federation.sizes[clients].tolist()
    rngs, training = streams(work.seed, "batches", t, clients), work.training.in_round(t)
    return [batches.plan(training, size, rng) for size, rng in zip(sizes, rngs, strict=True)]


def moves_of(work: Workload, clients: list[int], t: int, plans: list[Plan]) -> Tensor | None:
    """How the images of all minibatches are moved, [steps, clients, width, 3]; None if they are not."""
    kind = augment.KINDS[work.training.augment]
    if kind is None:
        return None
    rngs = streams(work.seed, "augment", t, clients)
    return augment.stack([augment.draw(kind, p.index.shape, rng) for p, rng in zip(plans, rngs, strict=True)])


def dropout_keys(work: Workload, clients: list[int], t: int, purpose: str) -> Tensor | None:
    if not work.model.uses_dropout:
        return None
    return torch.tensor([key63(work.seed, purpose, t, client) for client in clients], device=work.model.device)


def client_batches(work: Workload, client: int, t: int) -> tuple[Plan, Iterator[Batch]]:
    """The minibatches of a client's local training."""
    (plan,) = plans_of(work, [client], t)
    moves = moves_of(work, [client], t, [plan])
    return plan, gathered(work, client, plan, dropout_keys(work, [client], t, "dropout"), moves)


def client_chunks(work: Workload, client: int, t: int) -> tuple[Plan, Iterator[Batch]]:
    """All examples of a client, in chunks."""
    plan = batches.chunks(int(work.federation.sizes[client]))
    return plan, gathered(work, client, plan, dropout_keys(work, [client], t, "full-gradient-dropout"), None)


def gathered(work: Workload, client: int, plan: Plan, keys: Tensor | None, moves: Tensor | None) -> Iterator[Batch]:
    federation, device = work.federation, work.model.device
    index = torch.from_numpy(plan.index + federation.offsets[client]).to(federation.targets.device)
    moves = None if moves is None else moves.to(device)
    for k, (rows, count) in enumerate(zip(index, plan.count.tolist(), strict=True)):
        rows = rows[:count]
        inputs = moved_inputs(select(federation.inputs, rows), device)
        inputs = cast_floats(inputs, work.model.initial.dtype)
        targets = moved(federation.targets.index_select(0, rows), device)
        if work.mislabelled is not None and work.mislabelled[client]:
            targets = wrong_labels(targets, classes_of(work))
        if moves is not None:
            inputs = map_inputs(augment.moved, inputs, moves[k, 0, :count])
        yield Batch(inputs, targets, key=None if keys is None else fold(keys[0], k))


def classes_of(work: Workload) -> int:
    assert work.federation.classes is not None  # check_faults refuses labels to flip where there are none
    return work.federation.classes


class BlockBatches:
    """The minibatches of a block, padded to equal width; step k is gathered for the clients from `first` on."""

    def __init__(
        self, work: Workload, clients: np.ndarray, plan: BlockPlan, keys: Tensor | None, moves: Tensor | None
    ) -> None:
        self._federation, self._device, self._dtype = work.federation, work.model.device, work.model.initial.dtype
        self._wrong: Tensor | None = None
        """[clients], bool: who trains on wrong labels."""
        if work.mislabelled is not None and work.mislabelled[clients].any():
            self._wrong, self._classes = torch.from_numpy(work.mislabelled[clients]).to(self._device), classes_of(work)
        index = torch.from_numpy(np.ascontiguousarray(plan.index.swapaxes(0, 1)))
        self._index = index.to(work.federation.targets.device)
        self._keys, self._moves = keys, None if moves is None else moves.to(self._device)
        self._weights: Tensor | None = None
        if plan.padded:
            # A finished client (count 0) still computes, on one example, so that no 0/0 arises; a mask discards it.
            width = plan.index.shape[2]
            valid = np.arange(width) < np.maximum(plan.count, 1).T[:, :, None]
            self._weights = torch.from_numpy(np.ascontiguousarray(valid)).to(work.model.initial)

    def gather(self, k: int, first: int) -> Batch:
        rows = self._index[k, first:]
        places, shape = rows.flatten(), rows.shape

        def gathered(source: Tensor) -> Tensor:
            return moved(source.index_select(0, places).view(shape + source.shape[1:]), self._device)

        inputs, targets = map_inputs(gathered, self._federation.inputs), gathered(self._federation.targets)
        if self._wrong is not None:
            wrong = self._wrong[first:].view(-1, *[1] * (targets.dim() - 1))
            targets = torch.where(wrong, wrong_labels(targets, self._classes), targets)
        inputs = cast_floats(inputs, self._dtype)
        if self._moves is not None:
            inputs = map_inputs(augment.moved, inputs, self._moves[k, first:])
        weights = None if self._weights is None else self._weights[k, first:]
        return Batch(inputs, targets, weights, None if self._keys is None else fold(self._keys[first:], k))


def block_batches(work: Workload, block: Block) -> tuple[BlockPlan, BlockBatches]:
    """The minibatches of the block's local training."""
    clients = block.clients.tolist()
    plans = plans_of(work, clients, block.t)
    stacked = batches.stack(plans, work.federation.offsets[block.clients])
    keys, moves = dropout_keys(work, clients, block.t, "dropout"), moves_of(work, clients, block.t, plans)
    return stacked, BlockBatches(work, block.clients, stacked, keys, moves)


def block_chunks(work: Workload, block: Block) -> tuple[BlockPlan, BlockBatches]:
    """All examples of the block's clients, in chunks."""
    sizes = work.federation.sizes[block.clients]
    stacked = batches.stack([batches.chunks(int(n)) for n in sizes], work.federation.offsets[block.clients])
    keys = dropout_keys(work, block.clients.tolist(), block.t, "full-gradient-dropout")
    return stacked, BlockBatches(work, block.clients, stacked, keys, None)
