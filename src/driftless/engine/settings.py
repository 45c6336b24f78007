"""How a run is computed: what a user can set, and the rules that decide the rest.

The rules use what is known before the run (layers, parameters, floating-point operations, cohort), never a clock and,
for everything that the bits depend on, never the number of cores: the same command gives the same bits on a busy or
idle machine, on 2 cores or 64.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from driftless.engine.batches import steps_of
from driftless.engine.check import BlockTrial, trial_batch, try_block
from driftless.engine.minibatches import Workload
from driftless.engine.operations import FlopCount
from driftless.engine.ranks import current
from driftless.engine.single import gradient
from driftless.errors import InputError, check_choice, check_range, check_whole
from driftless.random import torch_stream

KINDS = ("auto", "block", "single")
STORES = ("auto", "memory", "disk")
STORED_AS = {None: None, "bfloat16": torch.bfloat16}
GIGABYTE = 2**30
MOST_THREADS, MOST_WORKERS, MOST_MEMORY = 1024, 128, 1e6
"""The same on every machine, so that a run can be resumed on another one."""
ONE_BY_ONE = (nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase)  # pyright: ignore[reportPrivateUsage]
"""Layers that fill a core with one client already, and whose versions under vmap are slower."""
LARGEST_BLOCK = 64
OPERATIONS_PER_SECOND = 2e10
BYTES_PER_SECOND = 8e9
"""Roughly, of one core of 2020 or later: only their order of magnitude matters."""
PASSES = 8
"""How often a step reads or writes each parameter: gradient, update, what the algorithm adds."""
BLOCK_SECONDS = 8e-3
"""Arithmetic of a block's step from which the fixed cost of its many operations no longer matters."""
WORTH_PROCESSES = 0.02
"""Seconds of a round from which it is spread over processes; handing it out and collecting it takes about a ms."""


@dataclass(frozen=True)
class EngineSettings:
    """How the rounds are computed: `simulate(engine=EngineSettings(...))`, section `engine` of a configuration.

    What is left open is decided by rules before the first round (docs/speed.md); `result.engine` has what was decided.

    Attributes:
        kind: "block" takes each local step for all clients of a block at once, "single" one client after the other;
            "auto" (default) decides by the model.
        block_size: Clients of a block, at least 1. Default None: by rule.
        threads: Threads of each process, 1 to 1024; more than one only with one process. Default 1.
        workers: Processes, 1 to 128; "auto" (default) takes one per core if a round has enough work. Does not change
            the bits.
        memory: Gigabytes that a block may take. Default 1.
        replay: False runs every step of a block as written, instead of replaying recorded operations. Default True.
        store: Where client state is kept: "memory", "disk", or "auto" (default): on disk if it does not fit into half
            of the free memory.
        store_dtype: "bfloat16" stores the vectors of clients in that type: less space, and other bits. Default None:
            the type of the run.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> engine = driftless.EngineSettings(kind="block", block_size=2, workers=1)
        >>> result = driftless.simulate("fedavg", federation, "logistic", rounds=1, cohort=4, engine=engine)
        >>> result.engine["block_size"]
        2
    """

    kind: str = "auto"
    block_size: int | None = None
    threads: int = 1
    workers: int | str = "auto"
    memory: float = 1.0
    replay: bool = True
    store: str = "auto"
    store_dtype: str | None = None

    def __post_init__(self) -> None:
        check_choice("engine", self.kind, KINDS)
        check_choice("store", self.store, STORES)
        check_choice("store_dtype", self.store_dtype, STORED_AS)
        check_whole("block_size", self.block_size, 1, other=None)
        check_whole("threads", self.threads, 1, most=MOST_THREADS)
        check_whole("workers", self.workers, 1, most=MOST_WORKERS, other="auto")
        check_range("memory, in gigabytes,", self.memory, 0, MOST_MEMORY, low_open=True)
        if not isinstance(self.replay, bool):
            raise InputError(f"replay must be true or false, got {self.replay!r}.")
        if isinstance(self.workers, int) and self.workers > 1 and self.threads != 1:
            raise InputError(
                f"workers={self.workers} have one thread each, got threads={self.threads}; leave threads out."
            )

    @property
    def stored_as(self) -> torch.dtype | None:
        """The type of stored vectors; None: that of the run."""
        return STORED_AS[self.store_dtype]


class Decision(NamedTuple):
    """How a run is computed."""

    kind: str
    block_size: int
    threads: int
    workers: int
    notices: tuple[str, ...] = ()


def decide(settings: EngineSettings, work: Workload, cohort: np.ndarray) -> Decision:
    """Fill in what the settings leave open. `cohort`: the first round's clients."""
    notices: tuple[str, ...] = ()
    kind, trial = settings.kind, BlockTrial("not tried")
    if kind == "auto":
        kind = "single" if len(cohort) == 1 or works_one_by_one(work) else "block"
    if kind == "block":
        trial = try_block(work)
        if trial.problem and settings.kind == "block":
            raise InputError(
                f"engine='block' cannot train this model with this loss: {trial.problem}. "
                "Use engine='single' or 'auto'."
            )
        if settings.kind == "auto" and (reason := trial.problem or ("vmap is slow for it" if trial.slow else None)):
            kind, notices = "single", (f"clients are trained one after the other, not in blocks: {reason}",)
    seconds = step_seconds(work)
    size = 1
    if kind == "block":
        size = settings.block_size or block_size(settings.memory, trial.bytes_of_a_client, seconds, len(cohort))
    blocks = -(-len(cohort) // size)
    workers = number_of_workers(settings, seconds * steps_in_round(work, cohort), blocks, work.model.device)
    if (ranks := current().size) > max(blocks, 1):
        notices += (
            f"{ranks} ranks for {blocks} blocks: {ranks - blocks} without work in a round; a smaller "
            "engine.block_size makes more blocks, and other bits",
        )
    return Decision(kind, size, settings.threads, workers, notices)


def works_one_by_one(work: Workload) -> bool:
    return any(issubclass(kind, ONE_BY_ONE) for kind in work.model.kinds_of_layers())


def step_seconds(work: Workload) -> float:
    """A rough estimate of one client's local step, from its floating-point operations and parameters."""
    batch = trial_batch(work)
    work.model.resident.load(work.model.initial)
    with FlopCount() as flops, torch_stream(work.seed, "trial"):
        gradient(work.model, work.loss, batch)
    x = work.model.initial
    width = int(np.median(work.federation.sizes)) if work.training.batch_size is None else work.training.batch_size
    operations = flops.total * width / len(batch.targets)
    return operations / OPERATIONS_PER_SECOND + PASSES * x.numel() * x.element_size() / BYTES_PER_SECOND


def steps_in_round(work: Workload, cohort: np.ndarray) -> int:
    """Of the first round, where the number changes."""
    return int(steps_of(work.training.in_round(1), work.federation.sizes[cohort]).sum())


def block_size(memory: float, bytes_of_a_client: float, seconds: float, cohort: int) -> int:
    """Enough clients for a step to be mostly arithmetic, few enough for the memory; a power of two of equal blocks.

    So a round of long steps has many blocks, which processes can share evenly, and a round of short steps has one.
    """
    enough = math.ceil(BLOCK_SECONDS / seconds)
    fitting = max(1, int(memory * GIGABYTE / bytes_of_a_client))
    blocks = -(-cohort // min(enough, fitting, LARGEST_BLOCK))
    return -(-cohort // min(cohort, 2 ** math.ceil(math.log2(blocks))))


def number_of_workers(settings: EngineSettings, seconds_of_a_round: float, blocks: int, device: torch.device) -> int:
    """Does not change the bits, so it may depend on the machine. The ranks of a launch are the workers of a run."""
    if (ranks := current().size) > 1:
        return ranks
    if isinstance(settings.workers, int):
        if settings.workers > 1 and device.type != "cpu":
            raise InputError(
                f"workers={settings.workers} are forked, and a forked process cannot use {device}; leave workers out, "
                "or start one process for each accelerator with torchrun."
            )
        return settings.workers
    can_fork = sys.platform == "linux" and not multiprocessing.current_process().daemon and device.type == "cpu"
    if settings.threads > 1 or seconds_of_a_round < WORTH_PROCESSES or not can_fork:
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), blocks, MOST_WORKERS))
