"""The files of a run: either whole or not there, never written through a link, and checked when they are read."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from driftless.config.plain import refuse_deep_or_huge
from driftless.errors import InputError


class Prefix(NamedTuple):
    """The beginning of a file that a checkpoint relies on."""

    length: int
    sha256: str | None
    """None: made by a version of driftless that recorded none."""


def write_atomically(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)  # left by a killed process; of a link, only the link goes
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with naming(path), open(descriptor, "wb") as file:
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


def open_in_place(path: Path) -> BinaryIO:
    """A file to be changed where it is, made if there is none. What changes with it must not be another file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if path.is_symlink() or path.is_dir():
            raise InputError(f"'{path}' is a link or a folder, not a file of a run; remove it.") from None
        raise error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise InputError(
            f"'{path}' is not a file of this run alone (a hard link or a device), so writing it would change something "
            "else; put a copy in its place."
        )
    return open(descriptor, "r+b")


def refuse_link(folder: Path) -> None:
    if folder.is_symlink():
        raise InputError(f"'{folder}' is a link, so files would be written and removed elsewhere; put a folder there.")


def write_json(path: Path, content: Any, indent: int | None = 2) -> None:
    write_atomically(path, (json.dumps(content, indent=indent, ensure_ascii=False) + "\n").encode())


def read_bytes(file: Path) -> bytes:
    """Of a regular file: a pipe or a device would never end."""
    if file.exists() and not file.is_file():
        raise InputError(f"'{file}' is not a file; remove it, or put the file back.")
    return file.read_bytes()


def read_json(file: Path) -> dict[str, Any]:
    try:
        return json_object(read_bytes(file))
    except NotAnObject as error:
        raise InputError(f"'{file}' is damaged: {error}. Put it back, or delete it.") from None


def read_lines(file: Path) -> list[dict[str, Any]]:
    """JSON lines; a last line that a killed process left unfinished is ignored."""
    if not file.exists():
        return []
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(read_bytes(file).split(b"\n")[:-1], 1):
        try:
            rows += [json_object(line)] if line else []
        except NotAnObject as error:
            raise InputError(
                f"line {number} of '{file}' is damaged: {error}. Put it back, or delete the run."
            ) from None
    return rows


class NotAnObject(ValueError):
    """A text is not the JSON object that a run writes."""


def json_object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
        refuse_deep_or_huge(value)
    except (ValueError, RecursionError) as error:
        raise NotAnObject(str(error)) from None
    if not isinstance(value, dict):
        raise NotAnObject(f"it is a {type(value).__name__}, not a JSON object {{...}}")
    return value


class Lines:
    """A file of JSON lines with a copy, from which it is repaired; each line is flushed when it is written."""

    def __init__(self, path: Path, copy: Path, content: bytes) -> None:
        """`content` is what both hold to begin with; what is behind it, written after the checkpoint, goes."""
        self._paths = (path, copy)
        self._content = content
        self._hash = hashlib.sha256(content)
        self._length = len(content)
        self._files: list[BinaryIO] = []

    def __enter__(self) -> Lines:
        with ExitStack() as files:  # closes them if one cannot be opened
            for path in self._paths:
                path.parent.mkdir(exist_ok=True)
                file = files.enter_context(open_in_place(path))
                if file.read(self._length) != self._content:
                    file.seek(0)
                    file.write(self._content)
                file.truncate(self._length)
                file.seek(self._length)
                self._files.append(file)
            self._close = files.pop_all().close
        return self

    def write(self, content: dict[str, Any]) -> None:
        line = (json.dumps(content) + "\n").encode()
        for path, file in zip(self._paths, self._files, strict=True):
            with naming(path):
                file.write(line)
                file.flush()
        self._hash.update(line)
        self._length += len(line)

    def sync(self) -> Prefix:
        """Make the lines durable before a checkpoint relies on them."""
        for file in self._files:
            os.fsync(file.fileno())
        return Prefix(self._length, self._hash.hexdigest())

    def __exit__(self, *_: object) -> None:
        self._close()


def whole_prefix(path: Path, copy: Path, prefix: Prefix) -> tuple[bytes | None, str]:
    """The lines that a checkpoint relies on, from the file or else from its copy; and what is wrong with the file."""
    content, kept = (file.read_bytes() if file.is_file() else b"" for file in (path, copy))
    if holds(content, prefix):
        return content[: prefix.length], ""
    if prefix.sha256 is None or not holds(kept, prefix):
        return None, f"{path.name} was changed, or lines of it are missing"
    lines, changed = kept[: prefix.length].split(b"\n"), content.split(b"\n")
    number = next((i for i, (one, other) in enumerate(zip(lines, changed, strict=False)) if one != other), len(changed))
    return kept[: prefix.length], f"{path.name} was changed in line {number + 1}; it is put back from its copy"


def holds(content: bytes, prefix: Prefix) -> bool:
    if len(content) < prefix.length:
        return False
    return prefix.sha256 is None or hashlib.sha256(content[: prefix.length]).hexdigest() == prefix.sha256
