"""Image files (PNG, WebP, JPEG), decoded by Pillow."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from driftless.data.formats.file_errors import report_damage, wrong_format

if TYPE_CHECKING:
    from PIL import Image

Pixels: TypeAlias = npt.NDArray[np.uint8]


def decode_rgb(content: bytes, where: object) -> Pixels:
    """Red, green and blue, [height, width, 3]."""
    return np.asarray(_decode(content, where))


def read_square(path: Path, size: int) -> Pixels:
    """The largest central square of an image, scaled to [size, size, 3]."""
    from PIL import Image, ImageOps

    with report_damage(path, "an image"):
        content = path.read_bytes()
    image = _decode(content, path)
    return np.array(ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR))


def _decode(content: bytes, where: object) -> Image.Image:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # all are raised by Pillow
        raise wrong_format(where, "an image", error) from error
