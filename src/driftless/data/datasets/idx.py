"""Files in the idx format of MNIST: a header with the shape, then bytes; often packed with gzip."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from driftless.data.datasets.archive import unpacked
from driftless.data.datasets.images import Scale, as_inputs, as_labels, check_options
from driftless.data.datasets.reading import broken
from driftless.data.datasets.source import Examples
from driftless.data.fetch import RemoteFile, obtain

Bytes: TypeAlias = npt.NDArray[np.uint8]
Forms: TypeAlias = tuple[RemoteFile, ...]  # the same file under several names

UNSIGNED_BYTE = 0x08
PARTS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def forms(dataset: str, address: str, torchvision: str, sums: Mapping[str, str], advice: str = "") -> list[Forms]:
    """The four files of a set laid out as MNIST is: as published, unpacked, with a prefix, and torchvision's.

    `sums` are those of the unpacked files: MNIST and its followers are passed on in many compressions.
    """

    def file(name: str, part: str, url: str | None = None) -> RemoteFile:
        return RemoteFile(name, url, unpacked=sums[part], advice=advice if url else "")

    return [
        (
            file(f"{part}.gz", part, f"{address}{part}.gz"),
            file(part, part),
            file(f"{dataset}_{part}.gz", part),
            file(f"{torchvision}/raw/{part}.gz", part),
            file(f"{torchvision}/raw/{part}", part),
        )
        for part in PARTS
    ]


def examples(dataset: str, files: list[Forms], classes: int, scale: Scale, source: str, normalize: str) -> Examples:
    """A set laid out as MNIST is."""
    check_options(normalize)
    paths = [obtain(dataset, *file) for file in files]
    (inputs, targets), test = (
        (
            as_inputs((pixels := read(images, 3))[:, None], scale, normalize),
            torch.from_numpy(as_labels(read(labels, 1), classes, len(pixels), str(labels))),
        )
        for images, labels in (paths[:2], paths[2:])
    )
    return Examples(inputs, targets, source, test=test, classes=classes)


def read(path: Path, dimensions: int) -> Bytes:
    return parse(path.read_bytes(), dimensions, path)


def parse(content: bytes, dimensions: int, where: object) -> Bytes:
    """An array of bytes with so many dimensions: 3 for images, 1 for labels."""
    content = unpacked(content, where)
    magic = bytes([0, 0, UNSIGNED_BYTE, dimensions])
    if content[:4] != magic:
        raise broken(
            where, f"an idx file of {dimensions} dimensions begins with {magic.hex()}, not {content[:4].hex()}"
        )
    start = 4 + 4 * dimensions
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if len(content) != start + math.prod(shape):
        raise broken(where, f"its header announces {start + math.prod(shape)} bytes, it has {len(content)}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
