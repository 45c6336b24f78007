"""`engine="auto"`: measure, once per kind of work, whether blocks or single clients are faster on this machine."""

from __future__ import annotations

import time
from collections.abc import Hashable

import numpy as np
import torch

from driftless.algorithm import Vector
from driftless.engine.block import BlockRunner, RunFacts, SingleRunner, Work

BLOCK_MEMORY = 2**30
"""Bytes that the vectors of a block may take together."""
LARGEST_BLOCK = 64
_choices: dict[Hashable, str] = {}


def block_size(cohort: int, vector: Vector) -> int:
    """Clients per block. About a dozen vectors a client are alive during a local step."""
    per_client = 12 * vector.numel() * vector.element_size()
    return max(1, min(cohort, LARGEST_BLOCK, BLOCK_MEMORY // per_client))


def choose(facts: RunFacts, cohort: np.ndarray, x: Vector) -> str:
    """ "block" or "single". The choice is remembered, so that equal runs in a process are equal to the bit."""
    if len(cohort) == 1:
        return "single"
    sizes = facts.federation.sizes
    kind = (str(facts.step.training), tuple(facts.federation.inputs.shape[1:]), len(x), x.dtype, len(cohort),
            int(np.median(sizes)), torch.get_num_threads())  # fmt: skip
    if kind not in _choices:
        _choices[kind] = measure(facts, cohort, x)
    return _choices[kind]


def measure(facts: RunFacts, cohort: np.ndarray, x: Vector) -> str:
    """Time full-batch gradients of up to eight clients both ways; the best of two after a warm-up."""
    clients = cohort[:8]
    examples = torch.from_numpy(facts.federation.sizes[clients]).to(x.dtype)
    work = Work(1, clients, torch.ones_like(examples), examples)
    seconds: dict[str, float] = {}
    for name, runner in (("single", SingleRunner(facts)), ("block", BlockRunner(facts))):
        try:
            seconds[name] = min(_timed(runner, work, x) for _ in range(3))
        except RuntimeError:
            # vmap has no rule for some operation of this model: blocks are not possible.
            seconds[name] = float("inf")
    return min(seconds, key=lambda name: seconds[name])


def _timed(runner: SingleRunner | BlockRunner, work: Work, x: Vector) -> float:
    start = time.perf_counter()
    runner.gradients(work, x)
    return time.perf_counter() - start
