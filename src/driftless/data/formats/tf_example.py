"""tf.train.Example, the records of TensorFlow Federated's databases, decoded from the wire format of protobuf.

    Example  { Features features = 1 }
    Features { map<string, Feature> feature = 1 }       an entry of a map is a message { key = 1, value = 2 }
    Feature  { one of: BytesList = 1, FloatList = 2, Int64List = 3 }, each a list { repeated value = 1 }

Numbers may be packed (one field with all values) or not (one field for each).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Feature: TypeAlias = list[bytes] | npt.NDArray[np.float32] | npt.NDArray[np.int64]

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3


def parse(record: bytes) -> dict[str, Feature]:
    """The features of a record by name; ValueError if the bytes are not such a message."""
    features: dict[str, Feature] = {}
    for _, feature_map in _fields(record, 1):
        for _, entry in _fields(feature_map, 1):
            parts = dict(_fields(entry))
            features[_bytes(parts.get(1, b"")).decode()] = _feature(_bytes(parts.get(2, b"")))
    return features


def _feature(message: bytes) -> Feature:
    for kind, content in _fields(message):
        values = [value for _, value in _fields(content, 1)]
        if kind == _BYTES:
            return [_bytes(value) for value in values]
        if kind == _FLOATS:
            return np.frombuffer(b"".join(map(_bytes, values)), dtype="<f4").astype(np.float32)
        if kind == _INTEGERS:
            numbers = [number for value in values for number in _integers(value)]
            return np.array(numbers, dtype=np.uint64).astype(np.int64)  # the upper half are the negative numbers
    return []


def _integers(value: bytes | int) -> Iterator[int]:
    if isinstance(value, int):
        yield value
        return
    position = 0
    while position < len(value):
        number, position = _varint(value, position)
        yield number


def _fields(message: bytes | int, only: int | None = None) -> Iterator[tuple[int, bytes | int]]:
    """(number, content) of each field, or of those with the number `only`: varints as integers, all others as bytes."""
    message = _bytes(message)
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            content, position = _varint(message, position)
        else:
            if kind == _LENGTH:
                length, position = _varint(message, position)
            elif kind in (_FOUR_BYTES, _EIGHT_BYTES):
                length = 4 if kind == _FOUR_BYTES else 8
            else:
                raise ValueError(f"unknown wire type {kind}")
            content = message[position : position + length]
            position += length
            if position > len(message):
                raise ValueError("a field is cut off")
        if only is None or number == only:
            yield number, content


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(message) and shift < 64:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
    raise ValueError("a number is cut off")


def _bytes(content: bytes | int) -> bytes:
    if isinstance(content, int):
        raise ValueError("a number in place of a message")
    return content
