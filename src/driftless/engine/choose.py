"""`engine="auto"`: measure, once per kind of work, whether blocks or single clients are faster on this machine."""

from __future__ import annotations

import time
from collections.abc import Hashable

import numpy as np
import torch

from driftless.algorithm import Vector
from driftless.engine.block import BlockRunner, RunFacts, SingleRunner, Work
from driftless.errors import InputError

BLOCK_MEMORY = 2**30
"""Bytes that the vectors of a block may take together."""
LARGEST_BLOCK = 64
_choices: dict[Hashable, str] = {}


def block_size(cohort: int, vector: Vector) -> int:
    """Clients per block. About a dozen vectors a client are alive during a local step."""
    per_client = 12 * vector.numel() * vector.element_size()
    return max(1, min(cohort, LARGEST_BLOCK, BLOCK_MEMORY // per_client))


def choose(facts: RunFacts, model: Hashable, cohort: np.ndarray, x: Vector) -> str:
    """ "block" or "single". The choice is remembered, so that equal runs in a process are equal to the bit."""
    if len(cohort) == 1:
        return "single"
    sizes, threads = facts.federation.sizes, torch.get_num_threads()
    kind = (model, facts.step.training, facts.federation.input_shape, len(x), x.dtype, len(cohort), threads)
    kind = (*kind, int(np.median(sizes)))
    if kind not in _choices:
        _choices[kind] = measure(facts, cohort, x)
    return _choices[kind]


def measure(facts: RunFacts, cohort: np.ndarray, x: Vector) -> str:
    """Time full-batch gradients of up to eight clients both ways; the best of two after a warm-up."""
    work = trial(facts, cohort[:8], x)
    seconds: dict[str, float] = {}
    for name, runner in (("single", SingleRunner(facts)), ("block", BlockRunner(facts))):
        try:
            seconds[name] = min([_timed(runner, work, x) for _ in range(3)][1:])
        except RuntimeError:
            if name == "single":
                raise
            # vmap has no rule for some operation of this model: blocks are not possible.
            seconds[name] = float("inf")
    return min(seconds, key=lambda name: seconds[name])


def check_liftable(facts: RunFacts, cohort: np.ndarray, x: Vector) -> None:
    """Raise if vmap cannot run this model, before any work."""
    try:
        BlockRunner(facts).gradients(trial(facts, cohort[:2], x), x)
    except RuntimeError as error:
        raise InputError(
            "engine='block' cannot run this model or loss: vmap cannot lift it (a branch on a tensor's value, or an "
            f"operation without a rule): {str(error).splitlines()[0][:120]} ... Use engine='single' or 'auto'."
        ) from error


def trial(facts: RunFacts, clients: np.ndarray, x: Vector) -> Work:
    """A little work on real data, whose result nobody keeps."""
    examples = torch.from_numpy(facts.federation.sizes[clients]).to(x.dtype)
    return Work(1, clients, torch.ones_like(examples), examples)


def _timed(runner: SingleRunner | BlockRunner, work: Work, x: Vector) -> float:
    start = time.perf_counter()
    runner.gradients(work, x)
    return time.perf_counter() - start
