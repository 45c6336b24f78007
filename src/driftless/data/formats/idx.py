"""The idx format of MNIST: a header with the shape, then one byte per value; often gzipped."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from driftless.data.formats.archive import gunzip
from driftless.data.formats.file_errors import unreadable
from driftless.data.formats.image_file import Pixels


def read_idx(path: Path, dimensions: int) -> Pixels:
    return parse_idx(path.read_bytes(), dimensions, path)


def parse_idx(content: bytes, dimensions: int, where: object) -> Pixels:
    """`dimensions` is 3 for images and 1 for labels; `where` names the file in errors."""
    content = gunzip(content, where)
    magic = bytes([0, 0, 8, dimensions])  # 8: unsigned bytes
    if content[:4] != magic:
        raise unreadable(
            where, f"an idx file of {dimensions} dimensions begins with {magic.hex()}, not {content[:4].hex()}"
        )
    start = 4 + 4 * dimensions
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if len(content) != start + math.prod(shape):
        raise unreadable(where, f"its header announces {start + math.prod(shape)} bytes, it has {len(content)}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
