"""TensorFlow Federated's files: HDF5 (`examples/<client>/<field>`) and SQLite databases of tf.train.Example records."""

from __future__ import annotations

import contextlib
import lzma
import shutil
import sqlite3
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftless.data import fetch
from driftless.data.datasets import tf_example
from driftless.data.datasets.reading import damaged, reading
from driftless.errors import InputError

BUCKET = "https://storage.googleapis.com/tff-datasets-public"

Client = tuple[str, list[Sequence[Any]]]  # the name, and for each field asked for the values of all examples


@dataclass(frozen=True)
class Part:
    """The training or the test part: a file of its own, or a split of a database."""

    path: Path
    split: str | None  # None: HDF5

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
        read = _from_h5(self.path) if self.split is None else _from_database(self.path, self.split)
        with read as (names, values_of):
            chosen = names if only is None else [name for name in names if name in only]
            for name in chosen[:limit_users]:
                yield name, values_of(name, fields, max_examples)


@dataclass(frozen=True)
class Files:
    train: Part
    test: Part


@dataclass(frozen=True)
class Published:
    """The files under which a data set was published: one database, or `<stem>_train.h5` and `<stem>_test.h5`."""

    dataset: str
    database: fetch.RemoteFile  # packed: `.sqlite.lzma`
    splits: tuple[str, str]
    stem: str

    def locate(self) -> Files:
        """Those that are here, else the database is downloaded."""
        database, (train, test) = self._database(), (self._h5(part) for part in ("train", "test"))
        if database is None and train is not None:
            if test is None:
                raise InputError(f"{train} is here, but {self.stem}_test.h5 is not; put it into the same folder.")
            return Files(Part(train, None), Part(test, None))
        path = database or fetch.obtain(self.dataset, self.database)
        path = _unpacked(self.dataset, path) if path.suffix == ".lzma" else path
        return Files(Part(path, self.splits[0]), Part(path, self.splits[1]))

    def are_here(self) -> bool:
        return self._database() is not None or self._h5("train") is not None

    def _database(self) -> Path | None:
        return fetch.find(self.dataset, self.database.name.removesuffix(".lzma"), self.database.name)

    def _h5(self, part: str) -> Path | None:
        return fetch.find(self.dataset, f"{self.stem}_{part}.h5")


def _unpacked(dataset: str, path: Path) -> Path:
    """SQLite needs a file, so that an unpacked copy stays in the cache."""
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
            raise damaged(path, "an LZMA archive", error) from error
    return target


@contextlib.contextmanager
def _from_h5(path: Path) -> Generator[tuple[list[str], Any]]:
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{path} is an HDF5 file and needs h5py: pip install 'driftless[tff]'.") from error
    with reading(path, "HDF5"), h5py.File(path, "r") as file:
        groups: Any = file.get("examples")
        if groups is None:
            raise InputError(
                f"{path} is not a file of TensorFlow Federated: it has {_list(file)} and no group 'examples'."
            )

        def values_of(name: str, fields: Sequence[str], most: int | None) -> list[Sequence[Any]]:
            group = groups[name]
            _check_fields(path, name, fields, group)
            return [group[field][:most] for field in fields]

        yield list(groups), values_of


@contextlib.contextmanager
def _from_database(path: Path, split: str) -> Generator[tuple[list[str], Any]]:
    with reading(path, "a SQLite database"), contextlib.closing(_connect(path)) as connection:
        _check_tables(path, connection, split)
        rows = connection.execute(
            "SELECT DISTINCT client_id FROM client_metadata WHERE split_name = ? ORDER BY client_id", (split,)
        )

        def values_of(name: str, fields: Sequence[str], most: int | None) -> list[Sequence[Any]]:
            records = connection.execute(
                "SELECT serialized_example_proto FROM examples WHERE split_name = ? AND client_id = ? "
                "ORDER BY rowid LIMIT ?",
                (split, name, -1 if most is None else most),
            )
            values: list[Sequence[Any]] = [[] for _ in fields]
            for (record,) in records:
                features = _features(path, name, record)
                _check_fields(path, name, fields, features)
                for column, field in zip(values, fields, strict=True):
                    feature = features[field]
                    column.append(feature[0] if len(feature) == 1 else feature)  # pyright: ignore
            return values

        yield [str(name) for (name,) in rows], values_of


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def _check_tables(path: Path, connection: sqlite3.Connection, split: str) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"examples", "client_metadata"} <= tables:
        raise InputError(
            f"{path} is not a database of TensorFlow Federated: it has the tables {_list(tables)}; "
            "it needs examples and client_metadata."
        )
    splits = [name for (name,) in connection.execute("SELECT DISTINCT split_name FROM client_metadata")]
    if split not in splits:
        raise InputError(f"{path} has no part '{split}', only {_list(splits)}; get the database of this data set.")


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
            raise InputError(
                f"client '{client}' in {path} has no field '{field}', only {_list(found)}; "
                "it may be the file of another data set."
            )


def _list(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:8]) or "nothing"
