"""The members of gzip, tar and zip files, read in memory: nothing is ever unpacked to the disk."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from driftless.data.datasets.reading import broken, reading
from driftless.data.fetch import GZIP


def unpacked(content: bytes, where: object) -> bytes:
    """What a gzip file holds; other content as it is."""
    if not content.startswith(GZIP):
        return content
    with reading(where):
        return gzip.decompress(content)


def tar_members(path: Path, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Name and content of each of these members, whatever folder of the archive they are in; all must be there."""
    missing = set(names)
    with reading(path), tarfile.open(path, "r:gz") as archive:
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
    raise broken(path, f"it does not have {', '.join(sorted(missing))}")


def zip_member(path: Path, name: str) -> bytes:
    """The member of this name, whatever folder of the archive it is in."""
    with reading(path), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if PurePosixPath(member.filename).name == name:
                return archive.read(member)
    raise broken(path, f"it does not have {name}")
