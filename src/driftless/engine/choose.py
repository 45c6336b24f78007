"""`engine="auto"`: measure, once per kind of work, whether blocks or single clients are faster on this machine."""

from __future__ import annotations

import time
from collections.abc import Hashable

import numpy as np
import torch

from driftless.algorithm import Vector
from driftless.engine.block import BlockRunner, RunFacts, SingleRunner, Work
from driftless.engine.flat import FlatModel
from driftless.engine.losses import Loss, is_mean_over_examples
from driftless.errors import InputError

BLOCK_MEMORY = 2**30
"""Bytes that the vectors of a block may take together."""
LARGEST_BLOCK = 64
_choices: dict[Hashable, str] = {}


def block_size(cohort: int, vector: Vector) -> int:
    """Clients per block. About a dozen vectors a client are alive during a local step."""
    per_client = 12 * vector.numel() * vector.element_size()
    return max(1, min(cohort, LARGEST_BLOCK, BLOCK_MEMORY // per_client))


def decide(engine: str, facts: RunFacts, model: FlatModel, loss: Loss, cohort: np.ndarray) -> str:
    """ "single" or "block": what was asked for, or for "auto" the faster one that is possible."""
    if engine == "single" or (engine == "auto" and len(cohort) == 1):
        return "single"
    try:
        check_blocks_possible(facts, model, loss, cohort)
    except InputError:
        if engine == "block":
            raise
        return "single"
    return "block" if engine == "block" else faster(facts, (model.description, loss), cohort, model.initial)


def check_blocks_possible(facts: RunFacts, model: FlatModel, loss: Loss, cohort: np.ndarray) -> None:
    """Raise, before any work, if vmap cannot run this model or padding would change this loss."""
    inputs, targets = facts.federation.inputs, facts.federation.targets
    rows = torch.linspace(0, len(inputs) - 1, min(32, len(inputs))).long()
    with torch.no_grad():
        outputs = model.evaluate(model.initial, inputs[rows])
        if not is_mean_over_examples(loss, outputs, targets[rows]):
            raise InputError(
                "engine='block' pads batches, so it needs a loss that is the plain mean over the examples; this one is "
                "not (class weights? ignored labels?). Use engine='single' or 'auto'."
            )
    try:
        BlockRunner(facts).gradients(trial(facts, cohort[:2], model.initial), model.initial)
    except RuntimeError as error:
        raise InputError(
            "engine='block' cannot run this model or loss: vmap cannot lift it (a branch on a tensor's value, or an "
            f"operation without a rule): {str(error).splitlines()[0][:120]} ... Use engine='single' or 'auto'."
        ) from error


def faster(facts: RunFacts, model: Hashable, cohort: np.ndarray, x: Vector) -> str:
    """Measured once and remembered, so that equal runs in a process are equal to the bit."""
    sizes, threads = facts.federation.sizes, torch.get_num_threads()
    kind = (model, facts.step.training, facts.federation.input_shape, len(x), x.dtype, len(cohort), threads)
    kind = (*kind, int(np.median(sizes)))
    if kind not in _choices:
        _choices[kind] = measure(facts, cohort, x)
    return _choices[kind]


def measure(facts: RunFacts, cohort: np.ndarray, x: Vector) -> str:
    """Time full-batch gradients of up to eight clients both ways; the best of two after a warm-up."""
    work = trial(facts, cohort[:8], x)
    runners = {"single": SingleRunner(facts), "block": BlockRunner(facts)}
    seconds = {name: min([_timed(runner, work, x) for _ in range(3)][1:]) for name, runner in runners.items()}
    return min(seconds, key=lambda name: seconds[name])


def trial(facts: RunFacts, clients: np.ndarray, x: Vector) -> Work:
    """A little work on real data, whose result nobody keeps."""
    examples = torch.from_numpy(facts.federation.sizes[clients]).to(x.dtype)
    return Work(1, clients, torch.ones_like(examples), examples)


def _timed(runner: SingleRunner | BlockRunner, work: Work, x: Vector) -> float:
    start = time.perf_counter()
    runner.gradients(work, x)
    return time.perf_counter() - start
