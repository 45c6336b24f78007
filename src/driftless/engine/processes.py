"""Processes forked from this one and connected with it by gloo: started, watched, ended."""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import torch
import torch.distributed as dist

from driftless.engine.group import TIMEOUT, Disconnected, Group
from driftless.errors import InputError, WorkerDied

LOOPBACK = "127.0.0.1"
PR_SET_PDEATHSIG = 1
LONGEST_CAUSE = 8000
"""Characters: well below what a pipe holds, so that sending never waits for a reader."""


def connect(port: int, rank: int, size: int, listener: socket.socket | None = None) -> Group:
    """The ranks find each other by a store at this port; rank 0 serves it and hands over the socket that listens.

    Not torch's default group: the user's process may have one, or look whether there is one, as torchmetrics does.
    """
    serving = {"is_master": True, "master_listen_fd": listener.detach()} if listener else {}
    store = dist.TCPStore(LOOPBACK, port, timeout=TIMEOUT, wait_for_workers=False, **serving)  # pyright: ignore
    options = dist.ProcessGroupGloo._Options()  # pyright: ignore
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=LOOPBACK)]
    options._timeout = TIMEOUT
    return Group(dist.ProcessGroupGloo(store, rank, size, options), rank, size)


class Processes:
    """This process as rank 0, and forked workers that run `serve`."""

    def __init__(self, number: int, serve: Callable[[Group], None]) -> None:
        if multiprocessing.current_process().daemon:
            raise InputError("workers cannot be started from a worker of a multiprocessing pool; use workers=1 there.")
        self.busy = False
        """Whether the workers are in the middle of a command."""
        self._workers: list[BaseProcess] = []
        self._causes: list[Connection] = []
        fork = multiprocessing.get_context("fork")
        with socket.create_server((LOOPBACK, 0)) as listener:
            port = listener.getsockname()[1]
            for rank in range(1, number):
                here, there = fork.Pipe(duplex=False)
                arguments = (port, rank, number, serve, there)
                process = fork.Process(target=run_worker, args=arguments, daemon=True, name=f"driftless worker {rank}")
                process.start()
                there.close()
                self._workers.append(process)
                self._causes.append(here)
            try:
                self.group = self._connected(listener, port, number)
            except BaseException:
                self.busy = True
                self.end()
                raise

    @contextmanager
    def together(self) -> Generator[None]:
        """A command that all ranks carry out. A lost connection means that a worker has ended: report which and why."""
        self.busy = True
        try:
            yield
        except Disconnected as error:
            died = self._death(wait=2)
            if died is None:
                raise
            raise WorkerDied(died) from error
        self.busy = False

    def end(self) -> None:
        """Workers that are in the middle of a command are killed."""
        for process in self._workers:
            if not self.busy:
                process.join(5)
            if process.is_alive():
                process.kill()
            process.join()

    def _connected(self, listener: socket.socket, port: int, number: int) -> Group:
        """Connect in a thread of its own: the wait for a worker that has died would have no end."""
        found: list[Group | BaseException] = []

        def attempt() -> None:
            try:
                found.append(connect(port, 0, number, listener))
            except BaseException as error:
                found.append(error)

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        while not found:
            thread.join(0.05)
            if not found and (died := self._death(wait=0)):
                raise WorkerDied(died)
        (group,) = found
        if isinstance(group, BaseException):
            raise group
        return group

    def _death(self, wait: float) -> str | None:
        """What ended first: others may only have noticed that. Those that were killed are named before all others."""
        multiprocessing.connection.wait([process.sentinel for process in self._workers], wait)
        if wait:
            time.sleep(0.2)  # the others have noticed by now, too
        ended = [(rank, p) for rank, p in enumerate(self._workers, 1) if p.exitcode is not None]
        causes = {rank: self._cause(rank) for rank, _ in ended}
        killed = [(rank, signal.Signals(-(p.exitcode or 0)).name) for rank, p in ended if (p.exitcode or 0) < 0]
        total = len(self._workers) + 1
        if killed:
            rank, name = killed[0]
            return f"worker {rank} of {total} has ended: it was killed by {name}; was there enough memory?"
        own = [(rank, cause) for rank, cause in causes.items() if cause and "Connection closed by peer" not in cause]
        for rank, cause in own or [(rank, cause) for rank, cause in causes.items() if cause]:
            return f"worker {rank} of {total} has ended: {cause}"
        return None

    def _cause(self, rank: int) -> str | None:
        pipe = self._causes[rank - 1]
        with suppress(EOFError):
            return pipe.recv() if pipe.poll() else None


def run_worker(port: int, rank: int, size: int, serve: Callable[[Group], None], cause: Connection) -> None:
    """What goes wrong is sent to rank 0."""
    for number in (signal.SIGINT, signal.SIGTERM):  # they reach all processes of a terminal or a job: rank 0 decides
        signal.signal(number, signal.SIG_IGN)
    end_with_parent()
    torch.set_num_threads(1)
    parent = os.getppid()
    try:
        serve(connect(port, rank, size))
    except BaseException as error:
        if os.getppid() == parent:
            text = str(error)[:LONGEST_CAUSE]
            if not isinstance(error, InputError):  # whose message is the whole explanation
                text = f"{type(error).__name__}: {text}\n{traceback.format_exc()[-LONGEST_CAUSE:]}"
            cause.send(text)
        os._exit(1)
    os._exit(0)  # nothing of the parent's, such as its open files, is to be finished twice


def end_with_parent() -> None:
    """Where the kernel can do it (Linux): no worker is left behind when rank 0 is killed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent is not None and os.getppid() != parent.pid:  # it was killed just before
        os._exit(1)
