"""gzip, tar and zip files, read in memory: nothing is unpacked to the disk."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from driftless.data.fetch import GZIP_MAGIC
from driftless.data.formats.file_errors import report_damage, unreadable


def gunzip(content: bytes, where: object) -> bytes:
    """The decompressed content of a gzip file; any other content unchanged."""
    if not content.startswith(GZIP_MAGIC):
        return content
    with report_damage(where):
        return gzip.decompress(content)


def open_text(path: Path) -> IO[str]:
    """A text file, gzipped if its name ends in .gz."""
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8")


def tar_members(path: Path, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Name and content of each of these members, in whatever folder of the archive; all must exist."""
    missing = set(names)
    with report_damage(path), tarfile.open(path, "r:gz") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            if name in missing and member.isfile():
                stream = archive.extractfile(member)
                assert stream is not None
                content = stream.read()
                missing.remove(name)
                yield name, content
            if not missing:
                return
    raise unreadable(path, f"it does not have {', '.join(sorted(missing))}")


def zip_member(path: Path, name: str) -> bytes:
    """The content of the member with this name, in whatever folder of the archive."""
    with report_damage(path), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if PurePosixPath(member.filename).name == name:
                return archive.read(member)
    raise unreadable(path, f"it does not have {name}")
