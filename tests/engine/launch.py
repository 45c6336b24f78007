"""Ranks as a launcher starts them, each in a process that is forked from this one: torch need not be imported anew.

They find each other by the environment, as under torchrun and srun. `Hosts` are two network namespaces joined by a
pair of virtual interfaces, each with a process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import torch

from driftless import cli

PATIENCE = 60.0
"""Seconds in which all ranks have to end, on a busy machine."""
INTERFACE = "driftless0"


class Ended(NamedTuple):
    code: int
    """Negative: the signal that has killed it."""
    out: str
    err: str
    at: float
    """The clock when it ended."""


class Rank:
    """A forked process; its output goes to files."""

    def __init__(
        self, call: Callable[[], object], folder: Path, name: str, env: Mapping[str, str], namespace: str | None = None
    ) -> None:
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.setsid()
                os.environ.update(env)
                sys.stdout, sys.stderr = self._out.open("w"), self._err.open("w")
                if namespace:
                    enter(namespace)
                torch.set_num_threads(1)
                call()
                code = 0
            except SystemExit as exit:
                code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

    def wait(self, deadline: float) -> Ended:
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return Ended(
                    os.waitstatus_to_exitcode(status), self._out.read_text(), self._err.read_text(), time.time()
                )
            time.sleep(0.02)
        raise AssertionError(f"a rank has not ended after {PATIENCE:g} seconds: {self._err.read_text()}")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def enter(namespace: str) -> None:
    with open(f"/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def command(*words: str) -> Callable[[], object]:
    """`driftless WORDS`."""

    def call() -> None:
        sys.argv = ["driftless", *words]
        cli.main()

    return call


def environments(size: int, address: str = "127.0.0.1", port: int = 0) -> list[dict[str, str]]:
    """As torchrun sets them."""
    common = {"WORLD_SIZE": str(size), "MASTER_ADDR": address, "MASTER_PORT": str(port or free_port())}
    return [common | {"RANK": str(rank)} for rank in range(size)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def launch(
    calls: Sequence[Callable[[], object]],
    folder: Path,
    env: Sequence[Mapping[str, str]] | None = None,
    namespaces: Sequence[str] | None = None,
    meanwhile: Callable[[list[Rank]], object] = lambda ranks: None,
) -> list[Ended]:
    """What each rank ended with; `meanwhile` is called when all are started."""
    env = environments(len(calls)) if env is None else env
    ranks = [
        Rank(call, folder, f"rank{rank}", env[rank], namespaces[rank] if namespaces else None)
        for rank, call in enumerate(calls)
    ]
    try:
        meanwhile(ranks)
        deadline = time.monotonic() + PATIENCE
        return [rank.wait(deadline) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


def lines_in(file: Path, number: int) -> None:
    """Wait until a file has as many lines."""
    deadline = time.monotonic() + PATIENCE
    while not file.exists() or len(file.read_bytes().splitlines()) < number:
        assert time.monotonic() < deadline, f"{file} has no {number} lines"
        time.sleep(0.02)


class Hosts:
    """Two of them; rank 0 is on the first."""

    def __init__(self) -> None:
        self.names = [f"driftless-{os.getpid()}-{letter}" for letter in "ab"]
        self.addresses = ["10.213.7.1", "10.213.7.2"]

    def ip(self, *words: str, host: int | None = None) -> None:
        where = [] if host is None else ["-n", self.names[host]]
        subprocess.run(["ip", *where, *words], check=True, capture_output=True, text=True)

    def slow(self) -> None:
        """Every packet from the first host takes longer; with a kernel that has no netem, few of them pass a second."""
        add = ["tc", "-n", self.names[0], "qdisc", "add", "dev", INTERFACE, "root"]
        if subprocess.run([*add, "netem", "delay", "5ms"], check=False, capture_output=True).returncode != 0:
            limit = [*add, "tbf", "rate", "2mbit", "burst", "8kb", "latency", "2s"]
            subprocess.run(limit, check=True, capture_output=True, text=True)

    def unplug(self) -> None:
        self.ip("link", "set", INTERFACE, "down", host=0)

    def environments(self) -> list[dict[str, str]]:
        """As srun sets them, with the host and the interface that the user names."""
        common = {
            "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_JOB_ID": "7",
            "SLURM_STEP_ID": "0",
            "SLURM_STEP_NODELIST": "node[1-2]",
        }
        common |= {"MASTER_ADDR": self.addresses[0], "GLOO_SOCKET_IFNAME": INTERFACE}
        return [common | {"SLURM_PROCID": str(rank)} for rank in range(2)]


@contextmanager
def two_hosts() -> Generator[Hosts]:
    """Raises OSError or CalledProcessError where namespaces are not allowed."""
    hosts = Hosts()
    try:
        for name in hosts.names:
            hosts.ip("netns", "add", name)
        a, b = hosts.names
        hosts.ip("link", "add", INTERFACE, "netns", a, "type", "veth", "peer", "name", INTERFACE, "netns", b)
        for host in range(2):
            hosts.ip("address", "add", f"{hosts.addresses[host]}/24", "dev", INTERFACE, host=host)
            for interface in ("lo", INTERFACE):
                hosts.ip("link", "set", interface, "up", host=host)
        yield hosts
    finally:
        for name in hosts.names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
