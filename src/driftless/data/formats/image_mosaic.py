"""Many small square images in one large picture, as some copies of CIFAR store them."""

from __future__ import annotations

import numpy as np

from driftless.data.formats.file_errors import unreadable
from driftless.data.formats.image_file import Pixels, decode_rgb


def images_from_pixel_rows(content: bytes, side: int, where: object) -> Pixels:
    """A picture whose every row of pixels is one image, row by row; [n, 3, side, side]."""
    picture = decode_rgb(content, where)
    if picture.shape[1] != side * side:
        raise unreadable(where, f"a row has {picture.shape[1]} pixels, an image has {side * side}")
    return np.ascontiguousarray(picture.reshape(-1, side, side, 3).transpose(0, 3, 1, 2))


def images_from_tiles(content: bytes, side: int, columns: int, where: object) -> Pixels:
    """A picture of tiles, `columns` in a row, read from left to right and from top to bottom; [n, 3, side, side]."""
    picture = decode_rgb(content, where)
    height, width, _ = picture.shape
    if width != columns * side or height % side:
        raise unreadable(where, f"it has {width}x{height} pixels, a mosaic {columns * side} by a multiple of {side}")
    return picture.reshape(-1, side, columns, side, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, side, side)
