"""Locks on files. They are the kernel's: a killed process leaves none behind."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from driftless.errors import InputError
from driftless.runs.files import open_in_place

LOCK = "lock"


class Locked(InputError):
    """Another process writes the run."""


@contextmanager
def locked(directory: Path) -> Generator[None]:
    """Only one process writes a run; for another one this raises Locked."""
    file = try_lock(directory / LOCK)
    if file is None:
        holder = (directory / LOCK).read_bytes().decode(errors="replace").strip() or "unknown"
        raise Locked(f"another process ({holder}) is writing the run in '{directory}'; wait for it, or stop it first.")
    with file:
        file.truncate(0)
        file.write(f"pid {os.getpid()}\n".encode())
        file.flush()
        yield


def try_lock(path: Path) -> BinaryIO | None:
    """The file, locked as long as it is open; None if another process has it."""
    file = open_in_place(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


@contextmanager
def exclusive(path: Path) -> Generator[None]:
    """One process at a time; others wait."""
    with open_in_place(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
