"""The official archives of CIFAR-10 and CIFAR-100, tar files of pickles ("python") or of rows of bytes ("binary").

A split is {"images": uint8 [n, 3, 32, 32], "labels": int64 [n]}, and "coarse": int64 [n] for CIFAR-100.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftless.data.array_cache import Arrays
from driftless.data.formats import restricted_pickle
from driftless.data.formats.archive import tar_members
from driftless.data.formats.file_errors import unreadable
from driftless.data.formats.image_file import Pixels
from driftless.data.formats.label_file import checked_labels

SIDE = 32
PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True)
class Layout:
    """Where the archives of the two data sets differ."""

    train: tuple[str, ...]  # members of the python archive; those of the binary one end in .bin
    test: tuple[str, ...]
    classes: Mapping[str, int]  # number of classes of each kind of label
    keys: Mapping[str, bytes]  # key of each kind of label in a pickle
    columns: tuple[str, ...]  # kinds of labels at the start of a binary row


def read_python_archive(path: Path, layout: Layout) -> Arrays:
    def read(name: str, content: bytes) -> Arrays:
        where = f"{path} (member {name})"
        stored = restricted_pickle.loads(content, where)
        for key in (b"data", *layout.keys.values()):
            if not isinstance(stored, dict) or key not in stored:
                raise unreadable(where, f"it has no entry '{key.decode()}'")
        images = stored[b"data"]
        if not isinstance(images, np.ndarray) or images.ndim != 2 or images.shape[1] != PIXELS:
            raise unreadable(where, f"its data are not rows of {PIXELS} bytes")
        labels = {kind: stored[key] for kind, key in layout.keys.items()}
        return checked_split(_as_images(images), labels, layout.classes, where)

    return _read_members(path, layout.train, layout.test, read)


def read_binary_archive(path: Path, layout: Layout) -> Arrays:
    """A row is the labels and the image, one byte each."""
    first = len(layout.columns)

    def read(name: str, content: bytes) -> Arrays:
        where = f"{path} (member {name})"
        if len(content) % (first + PIXELS):
            raise unreadable(where, f"its {len(content)} bytes are not whole rows of {first + PIXELS}")
        rows = np.frombuffer(content, np.uint8).reshape(-1, first + PIXELS)
        labels = {kind: rows[:, column] for column, kind in enumerate(layout.columns)}
        return checked_split(_as_images(rows[:, first:]), labels, layout.classes, where)

    train, test = (tuple(f"{name}.bin" for name in names) for names in (layout.train, layout.test))
    return _read_members(path, train, test, read)


def checked_split(images: Pixels, labels: Mapping[str, Any], classes: Mapping[str, int], where: str) -> Arrays:
    kinds = {kind: checked_labels(labels[kind], number, len(images), where) for kind, number in classes.items()}
    return {"images": images, **kinds}


def train_and_test(train: Arrays, test: Arrays) -> Arrays:
    """Both splits in one dictionary, as train_images, test_images, ..."""
    splits = {"train": train, "test": test}
    return {f"{name}_{kind}": values for name, arrays in splits.items() for kind, values in arrays.items()}


def _read_members(
    path: Path, train: Sequence[str], test: Sequence[str], read: Callable[[str, bytes], Arrays]
) -> Arrays:
    parts = {name: read(name, content) for name, content in tar_members(path, [*train, *test])}
    return train_and_test(_concatenate([parts[name] for name in train]), _concatenate([parts[name] for name in test]))


def _concatenate(parts: Sequence[Arrays]) -> Arrays:
    return {kind: np.concatenate([part[kind] for part in parts]) for kind in parts[0]}


def _as_images(rows: Pixels) -> Pixels:
    return rows.reshape(-1, 3, SIDE, SIDE)
