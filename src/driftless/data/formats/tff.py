"""The files under which TensorFlow Federated (TFF) publishes data sets by client: HDF5 files or one SQLite database."""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from driftless.data import fetch
from driftless.data.formats.file_errors import wrong_format
from driftless.data.formats.tff_hdf5 import open_hdf5
from driftless.data.formats.tff_sqlite import open_sqlite
from driftless.errors import InputError

BUCKET = "https://storage.googleapis.com/tff-datasets-public"

Client: TypeAlias = tuple[str, list[Sequence[Any]]]  # the name, and for each requested field the values of all examples


@dataclass(frozen=True)
class Split:
    """The training or the test split: an HDF5 file, or a part of a database."""

    path: Path
    name: str | None  # None: HDF5

    def clients(
        self,
        *fields: str,
        limit_users: int | None = None,
        only: Collection[str] | None = None,
        max_examples: int | None = None,
    ) -> Iterator[Client]:
        """The clients in the order of their names: the first `limit_users`, or those in `only`.

        Each with its first `max_examples` examples.
        """
        opened = open_hdf5(self.path) if self.name is None else open_sqlite(self.path, self.name)
        with opened as (names, values_of):
            chosen = names if only is None else [name for name in names if name in only]
            for name in chosen[:limit_users]:
                yield name, values_of(name, fields, max_examples)


@dataclass(frozen=True)
class Files:
    train: Split
    test: Split


@dataclass(frozen=True)
class Published:
    """A data set's file names: one database, or `<stem>_train.h5` and `<stem>_test.h5`."""

    dataset: str
    database: fetch.RemoteFile  # compressed: `.sqlite.lzma`
    splits: tuple[str, str]
    stem: str

    def locate(self) -> Files:
        """The files that are found, else the database is downloaded."""
        database, (train, test) = self._database(), (self._hdf5(part) for part in ("train", "test"))
        if database is None and train is not None:
            if test is None:
                raise InputError(f"{train} is here, but {self.stem}_test.h5 is not; put it into the same folder.")
            return Files(Split(train, None), Split(test, None))
        path = database or fetch.obtain(self.dataset, self.database)
        path = _decompressed(self.dataset, path) if path.suffix == ".lzma" else path
        return Files(Split(path, self.splits[0]), Split(path, self.splits[1]))

    def are_here(self) -> bool:
        return self._database() is not None or self._hdf5("train") is not None

    def _database(self) -> Path | None:
        return fetch.find(self.dataset, self.database.name.removesuffix(".lzma"), self.database.name)

    def _hdf5(self, part: str) -> Path | None:
        return fetch.find(self.dataset, f"{self.stem}_{part}.h5")


def _decompressed(dataset: str, path: Path) -> Path:
    """SQLite needs a file, so a decompressed copy is kept in the cache."""
    target = fetch.cache_folder() / dataset / path.stem
    if not target.is_file() or target.stat().st_mtime_ns < path.stat().st_mtime_ns:
        try:
            with lzma.open(path) as packed, fetch.replacing(target) as temporary, open(temporary, "wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
        except OSError as error:
            raise InputError(
                f"{path} cannot be unpacked to {target} ({error.strerror or error}); make room there, or set "
                "DRIFTLESS_CACHE to a folder that can be written."
            ) from error
        except (EOFError, lzma.LZMAError) as error:
            raise wrong_format(path, "an LZMA archive", error) from error
    return target
