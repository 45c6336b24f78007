"""Which examples make up each minibatch: index plans, computed on the CPU from keyed streams.

`training` is that of one round, `LocalTraining.in_round`, where the number of steps matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from numbers import Integral

import numpy as np

from driftless.data.memory import check_memory
from driftless.engine.local import LocalTraining
from driftless.errors import InputError

FULL_GRADIENT_CHUNK = 1024
"""Examples per chunk of a full-batch gradient: bounds the memory of its activations."""


@dataclass(frozen=True)
class Plan:
    """Minibatches of one client, as positions among its own examples."""

    index: np.ndarray
    """[steps, width]; in a row, the positions after the first `count` are padding."""
    count: np.ndarray
    """[steps]: the examples of each minibatch."""


def batches_per_epoch(training: LocalTraining, examples: np.ndarray) -> np.ndarray:
    if training.batch_size is None:
        return np.ones_like(examples)
    if training.last_batch == "drop":
        return examples // training.batch_size
    return -(-examples // training.batch_size)


def steps_of(training: LocalTraining, examples: np.ndarray) -> np.ndarray:
    """K_i of clients with these numbers of examples."""
    if training.steps is not None:
        assert isinstance(training.steps, Integral), "the steps of one round are wanted"
        return np.full_like(examples, training.steps)
    return batches_per_epoch(training, examples) * training.epochs


def examples_of(training: LocalTraining, examples: np.ndarray) -> np.ndarray:
    """Examples that clients of these sizes process in a round, repetitions included."""
    steps = steps_of(training, examples)
    if training.batch_size is None:
        return steps * examples
    if training.last_batch != "short":
        return steps * training.batch_size
    whole, rest = np.divmod(steps, batches_per_epoch(training, examples))
    return whole * examples + rest * training.batch_size


def check_steps(training: LocalTraining, examples: np.ndarray) -> None:
    """Raise if the minibatches of a client cannot be kept, or dropping incomplete ones leaves it without a step."""
    width = int(examples.max()) if training.batch_size is None else training.batch_size
    given = training.steps if isinstance(training.steps, Sequence) else (training.steps_at(1) or 1,)
    steps = max(*given, (training.epochs or 1) * -(-int(examples.max()) // width))
    check_memory(
        8 * steps * width, f"the minibatches of a client, {steps} steps of {width} examples,",
        "use fewer local.steps or local.epochs, or a smaller local.batch_size",
    )  # fmt: skip
    idle = np.flatnonzero(batches_per_epoch(training, examples) == 0)
    if len(idle):
        raise InputError(
            f"client {idle[0]} has {examples[idle[0]]} examples, fewer than local.batch_size={training.batch_size}; "
            f"with local.last_batch='drop' it (and {len(idle) - 1} others) would never train. "
            "Use last_batch='short' or 'bootstrap', or a smaller batch size."
        )


def plan(training: LocalTraining, examples: int, rng: np.random.Generator) -> Plan:
    """The minibatches of one client and round: fresh permutations, epoch after epoch."""
    form = _form(training, examples)
    if training.batch_size is None:
        return Plan(form.order, form.count)
    order = rng.permuted(form.order, axis=1)
    if form.missing < 0:
        order = order[:, : form.missing]
    elif form.missing:
        places = (len(order), form.missing)
        again = training.last_batch == "bootstrap"
        filling = rng.integers(examples, size=places) if again else np.zeros(places, dtype=np.int64)
        order = np.concatenate([order, filling], axis=1)
    return Plan(order.reshape(-1, form.width)[: len(form.count)], form.count)


@dataclass(frozen=True)
class _Form:
    """What the plans of all clients of one size have in common."""

    order: np.ndarray
    """[epochs, examples] 0, 1, 2, ... in each row; for full batches already the plan."""
    count: np.ndarray
    width: int
    missing: int
    """Examples that whole batches lack at the end of an epoch; negative: that are dropped there."""


@lru_cache(maxsize=4096)
def _form(training: LocalTraining, examples: int) -> _Form:
    sizes = np.array([examples])
    steps = int(steps_of(training, sizes)[0])
    if training.batch_size is None:
        return _Form(np.tile(np.arange(examples), (steps, 1)), np.full(steps, examples), examples, 0)
    per_epoch = int(batches_per_epoch(training, sizes)[0])
    epochs = -(-steps // per_epoch)
    width = training.batch_size if training.last_batch == "bootstrap" else min(training.batch_size, examples)
    missing = per_epoch * width - examples
    count = np.full((epochs, per_epoch), width)
    if training.last_batch == "short":
        count[:, -1] = width - missing
    return _Form(np.tile(np.arange(examples), (epochs, 1)), count.reshape(-1)[:steps], width, missing)


def chunks(examples: int) -> Plan:
    """All examples of a client once, in order, in chunks: the plan of a full-batch gradient."""
    width = min(examples, FULL_GRADIENT_CHUNK)
    rows = -(-examples // width)
    index = np.zeros(rows * width, dtype=np.int64)
    index[:examples] = np.arange(examples)
    count = np.full(rows, width)
    count[-1] = examples - (rows - 1) * width
    return Plan(index.reshape(rows, width), count)


@dataclass(frozen=True)
class BlockPlan:
    """Plans of a block of clients in one array, padded with repetitions to equal steps and width."""

    index: np.ndarray
    """[clients, steps, width] rows of the federation's tensors."""
    count: np.ndarray
    """[clients, steps]; 0 for a step beyond the client's own."""

    @cached_property
    def padded(self) -> bool:
        """Whether some minibatch has fewer examples than the width."""
        return bool((self.count != self.index.shape[2]).any())


def stack(plans: list[Plan], first_rows: np.ndarray) -> BlockPlan:
    """`first_rows`: where each client's examples begin in the federation's tensors."""
    if len({p.index.shape for p in plans}) == 1:
        index = np.stack([p.index for p in plans]) + first_rows[:, None, None]
        return BlockPlan(index, np.stack([p.count for p in plans]))
    steps = max(len(p.index) for p in plans)
    width = max(p.index.shape[1] for p in plans)
    index = np.repeat(first_rows, steps * width).reshape(len(plans), steps, width)
    count = np.zeros((len(plans), steps), dtype=np.int64)
    for i, p in enumerate(plans):
        index[i, : len(p.index), : p.index.shape[1]] += p.index
        count[i, : len(p.count)] = p.count
    return BlockPlan(index, count)
