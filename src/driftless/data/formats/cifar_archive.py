"""The official archives of CIFAR-10 and CIFAR-100, tar files of pickles ("python") or of rows of bytes ("binary").

A split is {"images": uint8 [n, 3, 32, 32], "labels": int64 [n]}, and "coarse": int64 [n] for CIFAR-100.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from driftless.data.array_cache import Arrays
from driftless.data.formats import restricted_pickle
from driftless.data.formats.archive import tar_members
from driftless.data.formats.file_errors import unreadable
from driftless.data.formats.image_file import Pixels
from driftless.data.formats.label_file import checked_labels

SIDE = 32
PIXELS = 3 * SIDE * SIDE

Reader: TypeAlias = tuple[list[Path], Callable[[], Arrays]]  # files, and a function that reads both splits from them


@dataclass(frozen=True)
class Layout:
    """Where the archives of the two data sets differ."""

    train: tuple[str, ...]  # members of the python archive; those of the binary one end in .bin
    test: tuple[str, ...]
    labels: Mapping[str, tuple[bytes, int]]  # of each kind, in the order of a binary row: key in a pickle, classes


def read_archive(path: Path, layout: Layout) -> Arrays:
    parse, ending = (_parse_pickle, "") if "python" in path.name else (_parse_rows, ".bin")
    train, test = ([f"{name}{ending}" for name in names] for names in (layout.train, layout.test))
    parts: dict[str, Arrays] = {}
    for name, content in tar_members(path, [*train, *test]):
        where = f"{path} (member {name})"
        rows, labels = parse(content, layout, where)
        parts[name] = checked_split(rows.reshape(-1, 3, SIDE, SIDE), labels, layout, where)
    return train_and_test(*(_concatenate([parts[name] for name in names]) for names in (train, test)))


def checked_split(images: Pixels, labels: Mapping[str, Any], layout: Layout, where: str) -> Arrays:
    kinds = {kind: checked_labels(labels[kind], n, len(images), where) for kind, (_, n) in layout.labels.items()}
    return {"images": images, **kinds}


def train_and_test(train: Arrays, test: Arrays) -> Arrays:
    """Both splits in one dictionary, as train_images, test_images, ..."""
    splits = {"train": train, "test": test}
    return {f"{name}_{kind}": values for name, arrays in splits.items() for kind, values in arrays.items()}


def _parse_pickle(content: bytes, layout: Layout, where: str) -> tuple[Pixels, dict[str, Any]]:
    stored = restricted_pickle.loads(content, where)
    keys = {kind: key for kind, (key, _) in layout.labels.items()}
    for key in (b"data", *keys.values()):
        if not isinstance(stored, dict) or key not in stored:
            raise unreadable(where, f"it has no entry '{key.decode()}'")
    rows = stored[b"data"]
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.shape[1] != PIXELS:
        raise unreadable(where, f"its data are not rows of {PIXELS} bytes")
    return rows, {kind: stored[key] for kind, key in keys.items()}


def _parse_rows(content: bytes, layout: Layout, where: str) -> tuple[Pixels, dict[str, Any]]:
    """A row is the labels and the image, one byte each."""
    first = len(layout.labels)
    if len(content) % (first + PIXELS):
        raise unreadable(where, f"its {len(content)} bytes are not whole rows of {first + PIXELS}")
    rows = np.frombuffer(content, np.uint8).reshape(-1, first + PIXELS)
    return rows[:, first:], {kind: rows[:, column] for column, kind in enumerate(layout.labels)}


def _concatenate(parts: Sequence[Arrays]) -> Arrays:
    return {kind: np.concatenate([part[kind] for part in parts]) for kind in parts[0]}
