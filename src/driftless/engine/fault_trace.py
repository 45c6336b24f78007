"""A trace of faults, read from a file: who drops out or is not available in which round."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from driftless.errors import LARGEST, InputError, short_repr

COLUMNS = ("round", "client", "fault")
FAULTS = ("dropout", "unavailable")
FORM = "a line has a round (from 1), a client (from 0) and a fault (dropout or unavailable)"
NOBODY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Trace:
    """The clients of each round and fault, ascending."""

    clients: Mapping[tuple[int, str], np.ndarray] = field(default_factory=dict)
    sha256: str | None = None
    """Of the file; None: there is none."""

    def having(self, t: int, fault: str) -> np.ndarray:
        return self.clients.get((t, fault), NOBODY)


def read_trace(file: str | os.PathLike[str] | None, clients: int) -> Trace:
    """Of a .csv file with the header round,client,fault, or of a .jsonl file with an object of these keys a line."""
    if file is None:
        return Trace()
    path = Path(file)
    content = content_of(path)
    found: dict[tuple[int, int], str] = {}
    for line, row in rows_of(path, content):
        try:
            t, client, fault = checked(row, clients)
        except ValueError as error:
            raise InputError(f"line {line} of the trace '{path}' {error}; {FORM}.") from None
        if (t, client) in found:
            raise InputError(
                f"line {line} of the trace '{path}' names client {client} in round {t} again; name it once a round."
            )
        found[t, client] = fault
    of_round: dict[tuple[int, str], list[int]] = {}
    for (t, client), fault in sorted(found.items()):
        of_round.setdefault((t, fault), []).append(client)
    arrays = {key: np.array(ids, dtype=np.int64) for key, ids in of_round.items()}
    return Trace(arrays, hashlib.sha256(content).hexdigest())


def content_of(path: Path) -> bytes:
    if path.suffix not in (".csv", ".jsonl"):
        raise InputError(f"faults.trace is '{path}'; give a file whose name ends with .csv or .jsonl.")
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is a folder, a pipe or a device")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"there is no trace '{path}'; give the path of a .csv or .jsonl file.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"the trace '{path}' cannot be read: {error}.") from None


def rows_of(path: Path, content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line that is not empty, with its number."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"the trace '{path}' is not text in UTF-8: {error}.") from None
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield number, parsed(path, number, line)
        return
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip() for name in next(reader, [])]
        if sorted(header) != sorted(COLUMNS):
            raise InputError(f"the trace '{path}' begins with {short_repr(header)}; its header is {','.join(COLUMNS)}.")
        for values in reader:
            if values:
                if len(values) != len(header):
                    raise InputError(f"line {reader.line_num} of the trace '{path}' has {len(values)} values; {FORM}.")
                yield reader.line_num, {name: value.strip() for name, value in zip(header, values, strict=True)}
    except csv.Error as error:
        raise InputError(f"line {reader.line_num} of the trace '{path}' is not CSV: {error}; {FORM}.") from None


def parsed(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"line {number} of the trace '{path}' is not JSON: {error}; {FORM}.") from None
    if not isinstance(row, dict) or sorted(row) != sorted(COLUMNS):
        raise InputError(f"line {number} of the trace '{path}' is {short_repr(row)}; {FORM}.")
    return row


def checked(row: Mapping[str, Any], clients: int) -> tuple[int, int, str]:
    t, client = whole(row, "round"), whole(row, "client")
    if not 1 <= t <= LARGEST:
        raise ValueError(f"has the round {t}")
    if not 0 <= client < clients:
        raise ValueError(f"names client {client}, and the {clients} clients are 0..{clients - 1}")
    if row["fault"] not in FAULTS:
        raise ValueError(f"has the fault {short_repr(row['fault'])}")
    return t, client, row["fault"]


def whole(row: Mapping[str, Any], name: str) -> int:
    """A whole number of JSON, or the digits of one in CSV."""
    value = row[name]
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"has {short_repr(value)} for the {name}")
