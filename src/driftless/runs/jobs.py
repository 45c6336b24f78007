"""Several runs at once, in processes that save what they do on Ctrl-C and end with their parent."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection
from pathlib import Path
from typing import Any

import torch

from driftless.config.user_code import in_script
from driftless.config.user_errors import keep_own_traceback
from driftless.engine.history import Record
from driftless.errors import WorkerDied
from driftless.runs.callbacks import Callback
from driftless.runs.directory import CHECKPOINT, StoredRun
from driftless.runs.lock import Locked
from driftless.runs.run import Interrupted, start_or_resume

SECONDS_FOR_A_LOCK = 10
"""A process whose parent was killed may still hold the lock of its run for a moment."""


class Shared:
    """What the processes share: the rounds done in all, and whether to stop after the current round."""

    def __init__(self, rounds: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._rounds = context.Value("q", rounds)
        self._stop = context.Value("b", 0)

    @property
    def rounds(self) -> int:
        return self._rounds.value

    def add(self, rounds: int) -> None:
        with self._rounds.get_lock():
            self._rounds.value += rounds

    @property
    def stopping(self) -> bool:
        return bool(self._stop.value)

    def stop(self) -> None:
        self._stop.value = 1


Tick = Callable[[], object]
"""Called often, to show progress."""


class CountRounds(Callback):
    """Adds the rounds of a run to the common count, and ends the run after its round when all are to stop."""

    writes_nothing = True

    def __init__(self, shared: Shared, tick: Tick) -> None:
        self.rounds = 0
        self._shared = shared
        self._tick = tick

    def on_start(self, config: object, directory: Path | None, first_round: int) -> None:
        self._count(first_round - 1)

    def on_round(self, record: Record) -> None:
        self._count(1)
        self._tick()
        if self._shared.stopping:
            signal.raise_signal(signal.SIGTERM)  # the run saves itself and raises Interrupted

    def _count(self, rounds: int) -> None:
        self.rounds += rounds
        self._shared.add(rounds)


def play(
    folders: Sequence[Path], progress: Callable[[int], object], jobs: int | None = None, trust: bool = False,
    keep_checkpoints: bool = True,
) -> list[StoredRun]:  # fmt: skip
    """Start, resume or skip the run that is planned in each folder, `jobs` at a time (default: one per core).

    `progress` is called with the number of rounds done in all. Ctrl-C saves all runs and raises KeyboardInterrupt.
    Of a run that has ended the checkpoints are kept or removed; with the states of all clients they are large.
    """
    missing = [folder for folder in folders if StoredRun(folder).result is None]
    shared = Shared(sum(len(StoredRun(folder).rows) for folder in folders if folder not in missing))
    arguments = [(folder, trust, keep_checkpoints) for folder in missing]
    run_jobs(play_planned, arguments, jobs, shared, lambda: progress(shared.rounds))
    return [StoredRun(folder) for folder in folders]


def play_planned(shared: Shared, tick: Tick, folder: Path, trust: bool, keep_checkpoints: bool) -> None:
    """A job: the run that is planned in the folder; a lock that is about to be released is waited for."""
    deadline = time.monotonic() + SECONDS_FOR_A_LOCK
    while not shared.stopping:
        try:
            start_or_resume(folder, [CountRounds(shared, tick)], trust=trust)
            if not keep_checkpoints:
                shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
            return
        except Locked:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def run_jobs(
    job: Callable[..., None], arguments: Sequence[tuple[Any, ...]], jobs: int | None, shared: Shared, tick: Tick
) -> None:
    """Call `job(shared, tick, *each)` for each of the arguments, `jobs` at a time: a single one in this process."""
    number = min(jobs or os.cpu_count() or 1, len(arguments)) if start_method() else 1
    try:
        with sigterm_as_interrupt():
            if number > 1:
                _in_processes(job, arguments, number, shared, tick)
            else:
                for each in arguments:
                    job(shared, tick, *each)
    except Interrupted:
        raise KeyboardInterrupt from None
    tick()


def start_method() -> str | None:
    """How processes are started; None if they cannot be.

    Forked ones begin at once, with the data and a user's objects. Spawned ones import everything anew, and would run a
    user's script itself again.
    """
    if sys.platform == "linux":
        return "fork"
    return None if in_script() else "spawn"


def _in_processes(
    job: Callable[..., None], arguments: Sequence[tuple[Any, ...]], number: int, shared: Shared, tick: Tick
) -> None:
    context = multiprocessing.get_context(start_method())
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(number, context, _start_process, (shared,)) as pool:
        with interrupts_blocked():
            futures = [pool.submit(_call, job, each) for each in arguments]
        try:
            _wait(futures, tick)
        except BrokenProcessPool:
            raise WorkerDied(
                "a process was killed, perhaps for lack of memory. What was saved can be continued, with fewer --jobs "
                "if it happens again."
            ) from None
        except BaseException:
            shared.stop()
            try:
                wait(futures)
            except KeyboardInterrupt:
                for process in set(multiprocessing.active_children()) - others:
                    process.kill()
                raise KeyboardInterrupt("stopped at once; rounds since the last checkpoints are played again") from None
            raise


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts_blocked() -> Generator[None]:
    """Processes started here receive neither Ctrl-C nor, until they are ready, SIGTERM: the parent stops them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


@contextmanager
def sigterm_as_interrupt() -> Generator[None]:
    """SIGTERM does what Ctrl-C does."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        previous = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread: whoever runs us there handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _wait(futures: Iterable[Future[None]], tick: Tick) -> None:
    """Until all are done; the first error is raised at once."""
    while futures:
        done, futures = wait(futures, timeout=0.1)
        for future in done:
            future.result()
        tick()


_shared: Shared | None = None  # of this process, if it was started by _in_processes


def _start_process(shared: Shared) -> None:
    global _shared
    _shared = shared
    torch.set_num_threads(1)  # threads of the process that this one was forked from are not here
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # between runs; during one it ends the run
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever. Its run is resumed like any killed one."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _call(job: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    assert _shared is not None
    try:
        job(_shared, lambda: None, *arguments)
    except Interrupted:
        if not _shared.stopping:  # someone else ended this run: it is missing
            raise
    except Exception as error:
        keep_own_traceback(error)
        raise
