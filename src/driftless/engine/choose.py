"""What the engine is to be, where the user leaves it open: measured before the run on a little of its own work.

One client after the other or blocks, how many clients a block has, how many threads, compiled or not. What was measured
is remembered for the process and written into the record of a run, so that equal runs are equal to the bit.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from driftless.algorithm import Facts, Round
from driftless.engine import memory
from driftless.engine.batches import steps_of
from driftless.engine.block import BlockRunner, RunFacts, Runner, SingleRunner, Work
from driftless.engine.compile import CannotCompile
from driftless.engine.flat import FlatModel
from driftless.engine.losses import Loss, is_mean_over_examples
from driftless.engine.tree import map_leaves
from driftless.errors import InputError, check_choice

KINDS = ("auto", "block", "single")
COMPILE = ("auto", "on", "off")
LARGEST_BLOCK = 64
TRIAL_STEPS = 2
TRIAL_CLIENTS = 8
TRIAL_SECONDS = 0.15
TRIAL_BLOCK = 2
LONG_STEP = 5e-3
"""Seconds: what is done once a step, whatever the number of clients, does not matter any more."""
COMPILING_PAYS = 150.0
"""Seconds of local steps from which `compile = auto` tries: compiling takes about 15 s and saves 10 to 40 %."""
GIGABYTE = 2**30


@dataclass(frozen=True)
class EngineSettings:
    """What the user asked for."""

    kind: str = "auto"
    block_size: int | None = None
    threads: int | None = None
    """Of each process. None: those torch has, or one if that is faster; one for each of several workers."""
    workers: int = 1
    compile: str = "auto"
    memory: float | None = None
    """Gigabytes that a block may take. None: a quarter of what is free."""

    def __post_init__(self) -> None:
        check_choice("engine", self.kind, KINDS)
        check_choice("compile", self.compile, COMPILE)
        for name in ("block_size", "threads", "workers"):
            value = getattr(self, name)
            none = "" if name == "workers" else " (or None)"
            if value is None and none:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1{none}, got {value!r}.")
        number = isinstance(self.memory, (int, float)) and not isinstance(self.memory, bool)
        if self.memory is not None and not (number and 0 < self.memory < math.inf):
            raise InputError(f"memory must be a positive number of gigabytes (or None), got {self.memory!r}.")
        if self.workers > 1 and self.threads not in (None, 1):
            raise InputError(
                f"workers={self.workers} have one thread each, got threads={self.threads}; leave threads out."
            )


class Choice(NamedTuple):
    """What the engine is."""

    runner: Runner
    block_size: int
    threads: int
    compiled: bool
    notices: tuple[str, ...] = ()


class Measured(NamedTuple):
    kind: str
    threads: int
    seconds: float
    """Of a local step of one client."""


_measured: dict[Hashable, Measured] = {}


def choose(
    settings: EngineSettings, facts: RunFacts, model: FlatModel, loss: Loss, cohort: np.ndarray, rounds: int
) -> Choice:
    """Settle what the settings leave open. `cohort`: the first round's clients."""
    threads = settings.threads or (1 if settings.workers > 1 else torch.get_num_threads())
    with torch.no_grad(), using_threads(threads):
        cohort = in_order_of_work(facts, cohort)
        lifted = trial_block(settings.kind, facts, model, loss, cohort)
        kinds = ["block"] * (lifted is not None) + ["single"] * (settings.kind != "block")
        size = 1 if lifted is None else settings.block_size or block_size(settings, lifted, len(cohort))
        best = Measured(kinds[0], threads, math.nan)
        open_threads = settings.threads is None and threads > 1
        long = settings.compile == "auto" and rounds * work_of_a_round(facts, cohort) > COMPILING_PAYS * 1e3
        if len(kinds) > 1 or open_threads or long:
            best = measure(facts, model, loss, kinds, cohort, size, open_threads)
    size = size if best.kind == "block" else 1
    with using_threads(best.threads):
        seconds = best.seconds * rounds * work_of_a_round(facts, cohort) / settings.workers
        wanted = settings.compile == "on" or (settings.compile == "auto" and seconds > COMPILING_PAYS)
        if not wanted:
            return Choice(runner_of(best.kind, facts), size, best.threads, False)
        return with_compilation(settings, facts, model, best, size, cohort)


def in_order_of_work(facts: RunFacts, cohort: np.ndarray) -> np.ndarray:
    """Long clients first: the trial must not consist of those that are soon finished."""
    return cohort[np.argsort(-steps_of(facts.step.training, facts.federation.sizes[cohort]), kind="stable")]


def work_of_a_round(facts: RunFacts, cohort: np.ndarray) -> int:
    """Local steps of all clients."""
    return int(steps_of(facts.step.training, facts.federation.sizes[cohort]).sum())


def runner_of(kind: str, facts: RunFacts) -> Runner:
    return BlockRunner(facts) if kind == "block" else SingleRunner(facts)


# ---------------------------------------------------------------------------------------------------- what is possible


def trial_block(kind: str, facts: RunFacts, model: FlatModel, loss: Loss, cohort: np.ndarray) -> BlockRunner | None:
    """A runner that took a step of a block of two; None if there are to be no blocks."""
    if kind == "single" or (kind == "auto" and len(cohort) == 1):
        return None
    try:
        return checked_block(facts, model, loss, cohort)
    except InputError:
        if kind == "block":
            raise
        return None


def checked_block(facts: RunFacts, model: FlatModel, loss: Loss, cohort: np.ndarray) -> BlockRunner:
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
    runner = BlockRunner(facts)
    try:
        try_out(runner, model, cohort[:TRIAL_BLOCK], 1, len(cohort))
    except RuntimeError as error:
        raise InputError(
            "engine='block' cannot run this model or loss: vmap cannot lift it (a branch on a tensor's value, or an "
            f"operation without a rule): {str(error).splitlines()[0][:120]} ... Use engine='single' or 'auto'."
        ) from error
    return runner


# ---------------------------------------------------------------------------------------------------- how much at once


def block_size(settings: EngineSettings, lifted: BlockRunner, cohort: int) -> int:
    """As many clients as the memory allows, in blocks of equal size, as many blocks for each worker as possible."""
    limit = settings.memory * GIGABYTE if settings.memory else memory.SHARE_OF_FREE * memory.free()
    most = max(1, min(LARGEST_BLOCK, int(limit / settings.workers / memory_of_a_client(lifted, cohort))))
    blocks = -(-cohort // most)
    blocks = -(-max(blocks, settings.workers) // settings.workers) * settings.workers
    return -(-cohort // min(blocks, cohort))


def memory_of_a_client(lifted: BlockRunner, cohort: int) -> float:
    """Bytes, from what a step of a small block was heard to do and what its images took to be moved."""
    return (lifted.replay.memory + lifted.room) / min(TRIAL_BLOCK, cohort)


# -------------------------------------------------------------------------------------------------- how fast is which


def measure(
    facts: RunFacts, model: FlatModel, loss: Loss, kinds: list[str], cohort: np.ndarray, size: int, open_threads: bool
) -> Measured:
    """The fastest of the kinds, and whether it is faster with one thread; measured once, then remembered."""
    sizes, threads = facts.federation.sizes, torch.get_num_threads()
    work = (model.description, loss, facts.step.training, facts.federation.input_shape, model.size, model.initial.dtype)
    key = (*work, len(cohort), size, int(np.median(sizes)), threads, tuple(kinds), open_threads)
    if key not in _measured:
        found = list[Measured]()
        for kind in sorted(kinds, reverse=True):  # single first: if its steps are long, a few clients show enough
            few = bool(found) and found[0].seconds > LONG_STEP
            found.append(Measured(kind, threads, seconds_of_a_step(kind, facts, model, cohort, size, few)))
        best = min(found, key=lambda each: each.seconds)
        if open_threads and best.seconds < LONG_STEP:  # long steps always have use for all threads
            with using_threads(1):
                alone = seconds_of_a_step(best.kind, facts, model, cohort, size, False)
            if alone < 0.97 * best.seconds:
                best = Measured(best.kind, 1, alone)
        _measured[key] = best
    return _measured[key]


def seconds_of_a_step(kind: str, facts: RunFacts, model: FlatModel, cohort: np.ndarray, size: int, few: bool) -> float:
    clients = min(size, 3 if few else TRIAL_CLIENTS) if kind == "block" else 2
    return timed(runner_of(kind, facts), model, cohort, clients)


def timed(runner: Runner, model: FlatModel, cohort: np.ndarray, number: int) -> float:
    """Seconds of a local step of one client, when its kind is known: the best of a few."""
    facts, clients = runner.facts, cohort[:number]
    steps = np.minimum(steps_of(facts.step.training, facts.federation.sizes[clients]), TRIAL_STEPS)
    for _ in range(-(-3 // int(steps.max()))):  # two steps are recorded, the third one is the first to be replayed
        try_out(runner, model, clients, 3, len(cohort))
    best, begin = math.inf, time.perf_counter()
    while best == math.inf or (time.perf_counter() - begin < TRIAL_SECONDS):
        start = time.perf_counter()
        try_out(runner, model, clients, TRIAL_STEPS, len(cohort))
        best = min(best, time.perf_counter() - start)
    return best / int(steps.sum())


def try_out(runner: Runner, model: FlatModel, clients: np.ndarray, limit: int, cohort: int) -> None:
    """A little local training whose result nobody keeps."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop")  # vmap's; that is what is being measured
        _try_out(runner, model, clients, limit, cohort)


def _try_out(runner: Runner, model: FlatModel, clients: np.ndarray, limit: int, cohort: int) -> None:
    facts, x = runner.facts, model.initial
    algorithm, federation = facts.step.algorithm, facts.federation
    clients = np.sort(clients)
    examples = federation.sizes[clients]
    order = np.argsort(examples, kind="stable")
    clients, examples = clients[order], torch.from_numpy(examples[order]).to(x.dtype)
    steps = torch.from_numpy(steps_of(facts.step.training, federation.sizes[clients])).to(x.dtype)
    msg = algorithm.broadcast(algorithm.init_server(x, Facts(model.layers, federation.clients)))
    states = map_leaves(lambda leaf: leaf.expand(len(clients), *leaf.shape).clone(), algorithm.init_client(x))
    lr = x.new_tensor(facts.step.training.lr)
    r = Round(x.new_tensor(1), lr, x, x, cohort, federation.clients, model.layers)
    work = Work(1, clients, steps, examples)
    if algorithm.full_gradient == "before":
        gradient = runner.gradients(work, x)
        r = r._replace(cohort_gradient=gradient.mean(0), gradient=gradient)
    runner.train(work, msg, states, r, limit)


# ------------------------------------------------------------------------------------------------------------- compile


def with_compilation(
    settings: EngineSettings, facts: RunFacts, model: FlatModel, best: Measured, size: int, cohort: np.ndarray
) -> Choice:
    """With its steps compiled if that is possible and, for `auto`, a tenth faster."""
    runner = runner_of(best.kind, facts)
    runner.replay.compiling = True
    clients = size if best.kind == "block" else 2
    try:
        seconds = timed(runner, model, cohort, clients)
    except CannotCompile as problem:
        notice = f"compile={settings.compile}: {problem}. The run goes on without compilation."
        return Choice(runner_of(best.kind, facts), size, best.threads, False, (notice,))
    runner.replay.compiling = False
    if settings.compile == "auto":
        plain = runner_of(best.kind, facts)
        if seconds > 0.9 * timed(plain, model, cohort, clients):
            return Choice(plain, size, best.threads, False)
    return Choice(runner, size, best.threads, True)


@contextmanager
def using_threads(number: int) -> Generator[None]:
    before = torch.get_num_threads()
    if number != before:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
