"""Data sets by client as TensorFlow Federated (TFF) publishes them: two HDF5 files, or one SQLite database.

HDF5: `examples/<client>/<field>` holds the values of all examples of a client.
SQLite: a table of tf.train.Example records, and a table of the clients of each split.
"""

from __future__ import annotations

import contextlib
import lzma
import shutil
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from driftless.data import fetch
from driftless.data.formats import tf_example
from driftless.data.formats.file_errors import report_damage, wrong_format
from driftless.errors import InputError

BUCKET = "https://storage.googleapis.com/tff-datasets-public"

Client: TypeAlias = tuple[str, list[Sequence[Any]]]  # the name, and for each requested field the values of all examples
ClientReader: TypeAlias = Callable[[str, Sequence[str], int | None], list[Sequence[Any]]]
"""(client, fields, most examples) -> the values of each field."""


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
        opened = _open_hdf5(self.path) if self.name is None else _open_sqlite(self.path, self.name)
        with opened as (names, values_of):
            chosen = names if only is None else [name for name in names if name in only]
            for name in chosen[:limit_users]:
                yield name, values_of(name, fields, max_examples)


@dataclass(frozen=True)
class Published:
    """A data set's file names: one database, or `<stem>_train.h5` and `<stem>_test.h5`."""

    dataset: str
    database: fetch.RemoteFile  # compressed: `.sqlite.lzma`
    splits: tuple[str, str]
    stem: str

    def locate(self) -> tuple[Split, Split]:
        """The training and the test split in the files that are found, else in the downloaded database."""
        database, (train, test) = self._database(), (self._hdf5(part) for part in ("train", "test"))
        if database is None and train is not None:
            if test is None:
                raise InputError(f"{train} is here, but {self.stem}_test.h5 is not; put it into the same folder.")
            return Split(train, None), Split(test, None)
        path = database or fetch.obtain(self.dataset, self.database)
        path = _decompressed(self.dataset, path) if path.suffix == ".lzma" else path
        return Split(path, self.splits[0]), Split(path, self.splits[1])

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
            raise fetch.not_writable(target, error) from error
        except (EOFError, lzma.LZMAError) as error:
            raise wrong_format(path, "an LZMA archive", error) from error
    return target


@contextlib.contextmanager
def _open_hdf5(path: Path) -> Generator[tuple[list[str], ClientReader]]:
    """The names of all clients, and a function that reads one of them."""
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{path} is an HDF5 file and needs h5py: pip install 'driftless[tff]'.") from error
    with report_damage(path, "HDF5"), h5py.File(path, "r") as file:
        groups: Any = file.get("examples")
        if groups is None:
            raise _another_file(path, f"it has {_listed(file)} and no group 'examples'")

        def read_client(client: str, fields: Sequence[str], most: int | None) -> list[Sequence[Any]]:
            _check_fields(path, client, fields, groups[client])
            return [groups[client][field][:most] for field in fields]

        yield list(groups), read_client


@contextlib.contextmanager
def _open_sqlite(path: Path, split: str) -> Generator[tuple[list[str], ClientReader]]:
    """The same for one split of a database."""
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    with (
        report_damage(path, "a SQLite database"),
        contextlib.closing(sqlite3.connect(address, uri=True)) as connection,
    ):
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"examples", "client_metadata"} <= tables:
            raise _another_file(path, f"it has the tables {_listed(tables)} and not examples and client_metadata")
        splits = [name for (name,) in connection.execute("SELECT DISTINCT split_name FROM client_metadata")]
        if split not in splits:
            raise _another_file(path, f"it has the splits {_listed(splits)} and not '{split}'")
        rows = connection.execute(
            "SELECT DISTINCT client_id FROM client_metadata WHERE split_name = ? ORDER BY client_id", (split,)
        )

        def read_client(client: str, fields: Sequence[str], most: int | None) -> list[Sequence[Any]]:
            records = connection.execute(
                "SELECT serialized_example_proto FROM examples WHERE split_name = ? AND client_id = ? "
                "ORDER BY rowid LIMIT ?",
                (split, client, -1 if most is None else most),
            )
            values: list[Sequence[Any]] = [[] for _ in fields]
            for (record,) in records:
                features = _features(path, client, record)
                _check_fields(path, client, fields, features)
                for column, field in zip(values, fields, strict=True):
                    feature = features[field]
                    column.append(feature[0] if len(feature) == 1 else feature)  # pyright: ignore
            return values

        yield [str(name) for (name,) in rows], read_client


def _features(path: Path, client: str, record: bytes) -> dict[str, tf_example.Feature]:
    try:
        return tf_example.parse(record)
    except ValueError as error:
        raise InputError(
            f"a record of client '{client}' in {path} is not a tf.train.Example ({error}); get the file again."
        ) from error


def _check_fields(path: Path, client: str, fields: Sequence[str], found: Collection[str]) -> None:
    for field in fields:
        if field not in found:
            raise _another_file(path, f"client '{client}' has the fields {_listed(found)} and not '{field}'")


def _another_file(path: Path, problem: str) -> InputError:
    return InputError(f"{path} is not TensorFlow Federated's file of this data set: {problem}; get the right one.")


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:8]) or "nothing"
