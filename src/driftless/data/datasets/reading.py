"""Reading files that others wrote: whatever is wrong with one becomes an error that names it."""

from __future__ import annotations

import contextlib
import gzip
import json
import lzma
import os
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, Any

from driftless.errors import InputError

_DAMAGE = (
    OSError, EOFError, NotImplementedError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile,
    sqlite3.Error, UnicodeDecodeError, json.JSONDecodeError,
)  # fmt: skip


def broken(where: object, why: object) -> InputError:
    """One wording for every file that is not what it should be."""
    return InputError(
        f"{where} cannot be read: {why}. It is damaged or not what its name says; delete it and get it again."
    )


@contextlib.contextmanager
def reading(where: object, what: str = "") -> Generator[None]:
    """Raise what a damaged file raises, in whatever format, as one kind of error; `what` it should have been."""
    try:
        yield
    except _DAMAGE as error:
        raise damaged(where, what, error) from error


def damaged(where: object, what: str, error: Exception) -> InputError:
    reason = str(error) or type(error).__name__
    return broken(where, f"it is not {what} ({reason})" if what else reason)


def open_text(path: Path) -> IO[str]:
    """Plain or gzipped, by the name's ending."""
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8")


def read_lines(path: Path, what: str, fields: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The objects of a file with one JSON object a line, each of which has these fields."""
    with reading(path, what), open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            value = json.loads(line)
            lacking = [field for field in fields if not isinstance(value, dict) or field not in value]
            if lacking:
                raise InputError(
                    f"line {number} of {path} has no '{lacking[0]}'; {what} has one object a line with the fields "
                    f"{', '.join(fields)}."
                )
            yield value


def check_room(needed: int, what: str, remedy: str) -> None:
    """Raise before memory is filled in vain; where a system does not tell what is free, nothing is checked."""
    free = _free()
    if free is not None and needed > free:
        raise InputError(f"{what} need {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free; {remedy}.")


def _free() -> int | None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    return None
