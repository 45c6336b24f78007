"""Writers of small files in the formats of LEAF and TensorFlow Federated, independent of the package's readers."""

from __future__ import annotations

import gzip
import json
import sqlite3
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Users = Mapping[str, tuple[Sequence[Any], Sequence[Any]]]


def need(path: Path) -> Path:
    """Skip the test if this file is missing."""
    if not path.is_file():
        pytest.skip(f"{path.name} is not available")
    return path


def leaf(path: Path, users: Users, /, **changes: Any) -> Path:
    """A file of LEAF; `changes` replace its entries, None removes one."""
    content: dict[str, Any] = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {name: {"x": list(x), "y": list(y)} for name, (x, y) in users.items()},
        "hierarchies": [],
    }
    content = {key: value for key, value in {**content, **changes}.items() if value is not None}
    return text(path, json.dumps(content))


def text(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    encoded = content.encode()
    path.write_bytes(gzip.compress(encoded) if path.suffix == ".gz" else encoded)
    return path


def lines(path: Path, entries: Sequence[Any]) -> Path:
    return text(path, "".join(json.dumps(entry) + "\n" for entry in entries))


def h5(path: Path, clients: Mapping[str, Mapping[str, Any]]) -> Path:
    h5py = pytest.importorskip("h5py")
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for client, fields in clients.items():
            for name, values in fields.items():
                is_text = len(values) > 0 and isinstance(values[0], bytes)
                data = np.array(values, dtype=h5py.string_dtype()) if is_text else np.array(values)
                file.create_dataset(f"examples/{client}/{name}", data=data)
    return path


def database(path: Path, splits: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> Path:
    """A database of TensorFlow Federated: {split: {client: [example, ...]}}."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(
            "CREATE TABLE examples (split_name TEXT NOT NULL, client_id TEXT NOT NULL, "
            "serialized_example_proto BLOB NOT NULL)"
        )
        connection.execute("CREATE INDEX i ON examples (split_name, client_id)")
        connection.execute(
            "CREATE TABLE client_metadata (client_id TEXT NOT NULL, split_name TEXT NOT NULL, "
            "num_examples INTEGER NOT NULL)"
        )
        for split, clients in splits.items():
            for client, examples in clients.items():
                records = [(split, client, example_record(example)) for example in examples]
                connection.executemany("INSERT INTO examples VALUES (?, ?, ?)", records)
                connection.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", (client, split, len(examples)))
    connection.close()
    return path


def example_record(features: Mapping[str, Any], packed: bool = True) -> bytes:
    """A tf.train.Example: bytes, arrays of floats and integers by name."""
    entries = b"".join(
        field(1, field(1, name.encode()) + field(2, feature_message(value, packed))) for name, value in features.items()
    )
    return field(1, entries)


def feature_message(value: Any, packed: bool) -> bytes:
    if isinstance(value, bytes):
        return field(1, field(1, value))
    numbers = np.atleast_1d(value)
    if numbers.dtype.kind == "f":
        values = [struct.pack("<f", number) for number in numbers.ravel()]
        return field(2, field(1, b"".join(values)) if packed else b"".join(b"\x0d" + each for each in values))
    values = [varint(int(number)) for number in numbers.ravel()]
    return field(3, field(1, b"".join(values)) if packed else b"".join(b"\x08" + each for each in values))


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
