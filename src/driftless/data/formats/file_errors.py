"""One wording for all files that cannot be read, whatever their format."""

from __future__ import annotations

import contextlib
import json
import lzma
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Generator

from driftless.errors import InputError

_RAISED_BY_DAMAGED_FILES = (
    OSError, EOFError, NotImplementedError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile,
    sqlite3.Error, UnicodeDecodeError, json.JSONDecodeError,
)  # fmt: skip


def unreadable(where: object, why: object) -> InputError:
    """`where` is the path of the file, with the name of the member if it is in an archive."""
    return InputError(
        f"{where} cannot be read: {why}. It is damaged or not what its name says; delete it and get it again."
    )


def wrong_format(where: object, expected: str, error: Exception) -> InputError:
    """`expected` names the format, "" for any."""
    reason = str(error) or type(error).__name__
    return unreadable(where, f"it is not {expected} ({reason})" if expected else reason)


@contextlib.contextmanager
def report_damage(where: object, expected: str = "") -> Generator[None]:
    """Turn the exceptions that readers raise for damaged files into an InputError that names the file."""
    try:
        yield
    except _RAISED_BY_DAMAGED_FILES as error:
        raise wrong_format(where, expected, error) from error
