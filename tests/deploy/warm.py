"""Flower's own programs, forked from a process that has imported torch: it takes seconds, once a message.

`start(folder)` begins such a process and returns a folder of programs, `flwr-clientapp`, `flwr-serverapp` and `flwr`,
to be put first on PATH. Each of them passes its arguments on, waits for the forked process, and ends with its code.
What runs is the entry point of Flower's program of that name, unchanged.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path

PROGRAMS = {
    "flwr-clientapp": "flwr.supernode.cli:flwr_clientapp",
    "flwr-serverapp": "flwr.superlink.cli:flwr_serverapp",
    "flwr": "flwr.cli.app:app",
}
SHIM = """#!/bin/sh
exec {python} -I -S {file} {socket} "$0" "$@"
"""


def start(folder: Path, env: dict[str, str]) -> tuple[Path, subprocess.Popen[bytes]]:
    """The folder of programs, and the process that forks them."""
    programs, address = folder / "bin", folder / "warm.socket"
    programs.mkdir()
    for name in PROGRAMS:
        shim = programs / name
        shim.write_text(SHIM.format(python=sys.executable, file=__file__, socket=address))
        shim.chmod(0o755)
    process = subprocess.Popen([sys.executable, __file__, "serve", str(address)], env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
    return programs, process


def call(address: str, argv: list[str]) -> int:
    """What a program of the folder does."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        request = json.dumps({"argv": argv, "env": dict(os.environ), "cwd": os.getcwd()}).encode()
        socket.send_fds(connection, [len(request).to_bytes(4, "big")], [1, 2])
        connection.sendall(request)
        code = connection.recv(4)
    return int.from_bytes(code, "big") if code else 1


def serve(address: str) -> None:
    for module in (*(entry.partition(":")[0] for entry in PROGRAMS.values()), "driftless.deploy.flower"):
        importlib.import_module(module)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    pids = Path(address).with_name("pids")
    pids.mkdir()
    print("ready", flush=True)  # noqa: T201
    running: dict[int, socket.socket] = {}

    def end(*_: object) -> None:
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        for ready in select.select([listener, *running.values()], [], [], 0.02)[0]:
            if ready is listener:
                connection, _ = listener.accept()
                running[fork(connection, listener, pids)] = connection
            else:  # the program was killed
                pid = next(pid for pid, connection in running.items() if connection is ready)
                os.kill(pid, signal.SIGKILL)
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            with running.pop(pid) as connection:
                code = os.waitstatus_to_exitcode(status)
                with suppress(OSError):
                    connection.sendall((code if code >= 0 else 128 - code).to_bytes(4, "big"))


def fork(connection: socket.socket, listener: socket.socket, pids: Path) -> int:
    length, (out, err), *_ = socket.recv_fds(connection, 4, 2)
    content = b""
    while len(content) < int.from_bytes(length, "big"):
        content += connection.recv(2**20)
    request = json.loads(content)
    pid = os.fork()
    if pid:
        os.close(out)
        os.close(err)
        return pid
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    connection.close()
    listener.close()
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    name = Path(request["argv"][0]).name
    (pids / f"{name}-{os.getpid()}").touch()
    sys.argv = [name, *request["argv"][1:]]
    module, _, entry = PROGRAMS[name].partition(":")
    code = 0
    try:
        getattr(importlib.import_module(module), entry)()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(call(sys.argv[1], sys.argv[2:]))
