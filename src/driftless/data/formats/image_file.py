"""Image files (PNG, WebP, JPEG), decoded by Pillow."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from driftless.data.formats.file_errors import wrong_format

Pixels: TypeAlias = npt.NDArray[np.uint8]


def decode_rgb(content: bytes | Path, where: object, size: int | None = None) -> Pixels:
    """Red, green and blue, [height, width, 3]; with `size`, the largest central square, scaled to [size, size, 3]."""
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(content) if isinstance(content, bytes) else content) as opened:
            image = opened.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # all are raised by Pillow
        raise wrong_format(where, "an image", error) from error
    return np.array(image if size is None else ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR))
