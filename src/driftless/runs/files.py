"""Files that are either whole or not there (written to a temporary name, synced, renamed), and JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from driftless.errors import InputError, short_repr


def write_atomically(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with naming(path), open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)  # on a full disk its space is needed
        raise
    sync_folder(path.parent)


@contextmanager
def naming(path: Path) -> Generator[None]:
    """The error of a failed write names the file; by itself only that of a failed open does."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def sync_folder(path: Path) -> None:
    """Make the rename itself durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, content: Any, indent: int | None = 2) -> None:
    write_atomically(path, (json.dumps(content, indent=indent, ensure_ascii=False) + "\n").encode())


def read_json(file: Path) -> dict[str, Any]:
    try:
        return as_object(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{file}' is damaged: {error}. Put it back, or delete it.") from None


def as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"it holds {short_repr(value)} where an object is expected")
    return value


def read_lines(file: Path) -> list[dict[str, Any]]:
    """JSON lines; a last line that a killed process left unfinished is ignored."""
    if not file.exists():
        return []
    lines = file.read_bytes().split(b"\n")
    try:
        return [as_object(json.loads(line)) for line in lines[:-1] if line]
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{file}' is damaged: {error}. Put it back, or delete the run.") from None


class Lines:
    """A file of JSON lines, cut to the position of a checkpoint; each line is flushed when it is written."""

    def __init__(self, path: Path, positions: dict[str, int]) -> None:
        self.path = path
        self.position = positions.get(path.name, 0)
        self._file: BinaryIO | None = None

    def __enter__(self) -> Lines:
        self.path.touch()
        if self.path.stat().st_size < self.position:
            raise InputError(
                f"'{self.path}' has {self.path.stat().st_size} bytes, but the checkpoint was made when it had "
                f"{self.position}: lines are missing. Put the file back, or delete the checkpoint folder to start over."
            )
        self._file = open(self.path, "r+b")
        self._file.truncate(self.position)
        self._file.seek(self.position)
        return self

    def write(self, content: dict[str, Any]) -> None:
        assert self._file is not None
        with naming(self.path):
            self._file.write((json.dumps(content) + "\n").encode())
            self._file.flush()
        self.position = self._file.tell()

    def sync(self) -> None:
        """Make the lines durable before a checkpoint relies on them."""
        assert self._file is not None
        os.fsync(self._file.fileno())

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._file.close()
