"""SQLite databases of TensorFlow Federated: a table of tf.train.Example records and a table of clients."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from driftless.data.formats import tf_example
from driftless.data.formats.file_errors import report_damage
from driftless.data.formats.tff_client import ClientReader, check_fields, first_names
from driftless.errors import InputError


@contextlib.contextmanager
def open_sqlite(path: Path, split: str) -> Generator[tuple[list[str], ClientReader]]:
    """The names of all clients of a split, and a function that reads one of them."""
    with report_damage(path, "a SQLite database"), contextlib.closing(_connect(path)) as connection:
        _check_tables(path, connection, split)
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
                check_fields(path, client, fields, features)
                for column, field in zip(values, fields, strict=True):
                    feature = features[field]
                    column.append(feature[0] if len(feature) == 1 else feature)  # pyright: ignore
            return values

        yield [str(name) for (name,) in rows], read_client


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def _check_tables(path: Path, connection: sqlite3.Connection, split: str) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"examples", "client_metadata"} <= tables:
        raise InputError(
            f"{path} is not a database of TensorFlow Federated: it has the tables {first_names(tables)}; "
            "it needs examples and client_metadata."
        )
    splits = [name for (name,) in connection.execute("SELECT DISTINCT split_name FROM client_metadata")]
    if split not in splits:
        raise InputError(
            f"{path} has no part '{split}', only {first_names(splits)}; get the database of this data set."
        )


def _features(path: Path, client: str, record: bytes) -> dict[str, tf_example.Feature]:
    try:
        return tf_example.parse(record)
    except ValueError as error:
        raise InputError(
            f"a record of client '{client}' in {path} is not a tf.train.Example ({error}); get the file again."
        ) from error
