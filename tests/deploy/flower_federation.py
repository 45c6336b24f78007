"""A real Flower federation on the loopback address: SuperLink, SuperNodes, TLS, node authentication."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

import driftless
from deploy import warm
from driftless.project import FEDERATION, write_project
from driftless.runs.directory import StoredRun

PATIENCE = 500.0
"""Seconds to wait for anything: the machine may be busy."""


def wait_until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited {seconds:g} s in vain: {what}")


def free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class FlowerFederation:
    """The project that `driftless deploy new` writes, its SuperLink and its nodes."""

    def __init__(self, folder: Path, nodes: int = 4, *, forked: bool = True) -> None:
        """`forked`: whether Flower's programs are forked from a process that has imported torch (warm.py)."""
        self.folder, self.number = folder / "project", nodes
        self.logs = folder / "logs"
        self.logs.mkdir(parents=True)
        write_project(self.folder, FEDERATION)
        self.env = os.environ | {
            "FLWR_HOME": str(self.folder / "flower"), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1", "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.4",
            "PYTHONPATH": str(Path(driftless.__file__).parent.parent),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }  # fmt: skip
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port, *self.node_ports = free_ports(nodes + 2)
        if forked:
            programs, self.processes["warm"] = warm.start(folder, self.env)
            self.env["PATH"] = f"{programs}{os.pathsep}{self.env['PATH']}"
        self.pids = folder / "pids"

    def __enter__(self) -> FlowerFederation:
        try:
            self.make_keys(self.number)
            self.start_superlink()
            for node in range(self.number):
                self.register(node)
                self.start_node(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def make_keys(self, nodes: int) -> None:
        words = [sys.executable, "make_keys.py", "--nodes", str(nodes), "--port", str(self.port)]
        subprocess.run(words, cwd=self.folder, env=self.env, check=True, capture_output=True)

    def start_superlink(self) -> None:
        self.start(
            "superlink", "flower-superlink", "--ssl-ca-certfile", "keys/ca.crt", "--ssl-certfile", "keys/server.crt",
            "--ssl-keyfile", "keys/server.key", "--enable-supernode-auth", "--disable-runtime-dependency-installation",
            "--port", str(self.port),
        )  # fmt: skip
        wait_until(self.superlink_answers, "the SuperLink")

    def superlink_answers(self) -> bool:
        try:
            authority = ssl.create_default_context(cafile=self.folder / "keys" / "ca.crt")
            found = httpx.get(f"https://127.0.0.1:{self.port}/health", verify=authority)
        except httpx.HTTPError:
            return False
        return found.is_success

    def register(self, node: int) -> None:
        self.flwr("supernode", "register", f"keys/node-{node}.pub")

    def start_node(self, node: int, config: str = "", key: str = "") -> None:
        self.start(
            f"node-{node}", "flower-supernode", "--superlink", f"127.0.0.1:{self.port}", "--root-certificates",
            "keys/ca.crt", "--auth-supernode-private-key", key or f"keys/node-{node}", "--port",
            str(self.node_ports[node]), "--node-config", f"partition-id={node} {config}".strip(),
        )  # fmt: skip

    def start(self, name: str, *words: str) -> None:
        with open(self.logs / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                words, cwd=self.folder, env=self.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def kill_node(self, node: int) -> None:
        """With all processes that it has started."""
        process = self.processes.pop(f"node-{node}")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def flwr(self, *words: str) -> str:
        ended = subprocess.run(["flwr", *words], cwd=self.folder, env=self.env, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def begin(self, output: str, **settings: Any) -> Path:
        """Start the app; its run directory."""
        given = {"run.output": output} | {key.replace("__", "."): value for key, value in settings.items()}
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in given.items())
        self.flwr("run", ".", "--run-config", text)
        return self.folder / output

    def run(self, output: str, **settings: Any) -> StoredRun:
        """Start the app and wait for the end of its run."""
        return self.ended(self.begin(output, **settings))

    def ended(self, directory: Path) -> StoredRun:
        wait_until((directory / "result.json").exists, f"the end of {directory.name}\n{self.log('superlink')}")
        return StoredRun(directory)

    def rounds(self, directory: Path) -> int:
        file = directory / "metrics.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def log(self, name: str) -> str:
        file = self.logs / f"{name}.log"
        return file.read_text(errors="replace")[-6000:] if file.exists() else ""

    def kill_server_app(self, directory: Path) -> None:
        """That of one run: the process that has locked its directory."""
        for file in self.pids.glob("flwr-serverapp-*"):
            pid = int(file.name.rpartition("-")[2])
            if any(os.path.realpath(link).startswith(f"{directory}/") for link in opened(pid)):
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError(f"no server app has opened a file of {directory}")


def opened(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return []
