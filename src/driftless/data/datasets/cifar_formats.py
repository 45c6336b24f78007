"""The forms in which CIFAR-10 and CIFAR-100 are passed on, each read to the same arrays.

A split is {"images": uint8 [n, 3, 32, 32], "labels": int64 [n]}, with "coarse" too for CIFAR-100.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from driftless.data.datasets import restricted_pickle
from driftless.data.datasets.archive import tar_members
from driftless.data.datasets.images import Pixels, as_labels
from driftless.data.datasets.reading import broken, reading
from driftless.data.decoded import Arrays
from driftless.errors import InputError

SIDE = 32
PIXELS = 3 * SIDE * SIDE
MOSAIC = 100  # images in a row of a mosaic


@dataclass(frozen=True)
class Layout:
    """What tells the archives of the two sets apart."""

    train: tuple[str, ...]  # members of the archive for Python; the binary ones end in .bin
    test: tuple[str, ...]
    classes: Mapping[str, int]  # how many of each kind of label
    keys: Mapping[str, bytes]  # the name of each kind of label in a pickle
    columns: tuple[str, ...]  # the kinds of labels at the start of a binary row


def python_archive(path: Path, layout: Layout) -> Arrays:
    def read(name: str, content: bytes) -> Arrays:
        where = f"{path} (member {name})"
        stored = restricted_pickle.loads(content, where)
        for key in (b"data", *layout.keys.values()):
            if not isinstance(stored, dict) or key not in stored:
                raise broken(where, f"it has no entry '{key.decode()}'")
        images = stored[b"data"]
        if not isinstance(images, np.ndarray) or images.ndim != 2 or images.shape[1] != PIXELS:
            raise broken(where, f"its data are not rows of {PIXELS} bytes")
        return split(_planes(images), {kind: stored[key] for kind, key in layout.keys.items()}, layout.classes, where)

    return _archive(path, layout.train, layout.test, read)


def binary_archive(path: Path, layout: Layout) -> Arrays:
    """Rows of the labels and the image, one byte each."""
    first = len(layout.columns)

    def read(name: str, content: bytes) -> Arrays:
        where = f"{path} (member {name})"
        if len(content) % (first + PIXELS):
            raise broken(where, f"its {len(content)} bytes are not whole rows of {first + PIXELS}")
        rows = np.frombuffer(content, np.uint8).reshape(-1, first + PIXELS)
        labels = {kind: rows[:, column] for column, kind in enumerate(layout.columns)}
        return split(_planes(rows[:, first:]), labels, layout.classes, where)

    train, test = (tuple(f"{name}.bin" for name in names) for names in (layout.train, layout.test))
    return _archive(path, train, test, read)


def _archive(path: Path, train: Sequence[str], test: Sequence[str], read: Callable[[str, bytes], Arrays]) -> Arrays:
    parts = {name: read(name, content) for name, content in tar_members(path, [*train, *test])}
    return both(_joined([parts[name] for name in train]), _joined([parts[name] for name in test]))


def split(images: Pixels, labels: Mapping[str, Any], classes: Mapping[str, int], where: str) -> Arrays:
    kinds = {kind: as_labels(labels[kind], number, len(images), where) for kind, number in classes.items()}
    return {"images": images, **kinds}


def both(train: Arrays, test: Arrays) -> Arrays:
    """The two splits in one dictionary, as train_images, test_images, ..."""
    splits = {"train": train, "test": test}
    return {f"{name}_{kind}": values for name, arrays in splits.items() for kind, values in arrays.items()}


def png_rows(content: bytes, where: object) -> Pixels:
    """A picture that has one image in each row of pixels."""
    picture = _picture(content, where)
    if picture.shape[1] != SIDE * SIDE:
        raise broken(where, f"a row has {picture.shape[1]} pixels, an image has {SIDE * SIDE}")
    return np.ascontiguousarray(picture.reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2))


def mosaic(path: Path) -> Pixels:
    """A picture of rows of 100 images."""
    picture = _picture(path.read_bytes(), path)
    height, width, _ = picture.shape
    if width != MOSAIC * SIDE or height % SIDE:
        raise broken(path, f"it has {width}x{height} pixels, a mosaic {MOSAIC * SIDE} by a multiple of {SIDE}")
    return picture.reshape(-1, SIDE, MOSAIC, SIDE, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, SIDE, SIDE)


def json_labels(content: bytes, where: object) -> list[Any]:
    try:
        labels = json.loads(content)
    except ValueError as error:
        raise broken(where, error) from error
    if not isinstance(labels, list):
        raise broken(where, "it is not a list of labels")
    return labels


def npz_labels(path: Path, *names: str) -> list[npt.NDArray[Any]]:
    """These arrays of an npz file."""
    try:
        with open(path, "rb") as file:
            stored = np.load(file, allow_pickle=False)
            having = list(stored.files)
            arrays = {name: stored[name] for name in names if name in having}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise broken(path, error) from error  # AttributeError: another kind of file, which numpy reads too
    for name in names:
        if name not in arrays:
            raise InputError(
                f"{path} has no array '{name}' (it has {', '.join(having) or 'none'}); "
                "get the complete file of labels, or use the official archive instead."
            )
    return [arrays[name] for name in names]


def _joined(parts: Sequence[Arrays]) -> Arrays:
    return {kind: np.concatenate([part[kind] for part in parts]) for kind in parts[0]}


def _planes(rows: npt.NDArray[np.uint8]) -> Pixels:
    return rows.reshape(-1, 3, SIDE, SIDE)


def _picture(content: bytes, where: object) -> npt.NDArray[np.uint8]:
    """Red, green and blue, [height, width, 3]."""
    from PIL import Image

    try:
        with reading(where), Image.open(io.BytesIO(content)) as picture:
            return np.asarray(picture.convert("RGB"))
    except (SyntaxError, Image.DecompressionBombError) as error:  # what Pillow raises of damaged headers
        raise broken(where, error) from error
