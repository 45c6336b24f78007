"""Random crops and mirrors of training images: what is drawn for a client's round, and a batch of images so moved.

A crop of the padded image is a window of the image's own size that has moved by at most `PAD` pixels each way; what it
shows is then mirrored. Beyond the edges there is 0, in the values that the model sees: where the data are normalised
that is the mean, not black.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from driftless.data.inputs import Inputs, described
from driftless.errors import InputError

PAD = 4


class Kind(NamedTuple):
    """How likely an image is moved in either way."""

    crop: float
    mirror: float


KINDS: dict[str, Kind | None] = {
    "none": None,
    "crop-flip": Kind(1.0, 0.5),
    "half-crop-flip": Kind(0.5, 0.5),
    "flip": Kind(0.0, 0.5),
}


def check_images(augment: str, inputs: Inputs) -> None:
    """Raise unless the examples are images that can be moved."""
    if KINDS[augment] is None:
        return
    if not isinstance(inputs, Tensor) or inputs.dim() != 4 or not inputs.is_floating_point():
        raise InputError(
            f"local.augment='{augment}' moves images: floats of shape [channels, height, width]; these examples have "
            f"the shape {described(inputs)}. Give images, or set local.augment='none'."
        )


def draw(kind: Kind, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """The moves of a client's round, shape [steps, width]: how far the window goes down and right, 1 for mirrored.

    Mirrors come first, then shifts, then whether to shift: kinds differ in what they do, not in what they draw.
    """
    moves = np.zeros((*shape, 3), dtype=np.int8)
    moves[..., 2] = rng.random(shape) < kind.mirror
    if kind.crop:
        shifts = rng.integers(-PAD, PAD, size=(*shape, 2), endpoint=True)
        moves[..., :2] = shifts * (rng.random((*shape, 1)) < kind.crop)
    return moves


def stack(drawn: list[np.ndarray]) -> Tensor:
    """The moves of a block of clients, [steps, clients, width, 3]; padding is not moved."""
    steps, width = (max(moves.shape[axis] for moves in drawn) for axis in (0, 1))
    stacked = np.zeros((steps, len(drawn), width, 3), dtype=np.int8)
    for i, moves in enumerate(drawn):
        stacked[: moves.shape[0], i, : moves.shape[1]] = moves
    return torch.from_numpy(stacked)


def moved(images: Tensor, moves: Tensor) -> Tensor:
    """Images [..., C, H, W], each moved by its own of [..., 3]: one gather for all."""
    height, width = images.shape[-2:]
    down, right, mirrored = moves.long().unsqueeze(-2).unbind(-1)
    row, column = torch.arange(height, device=images.device), torch.arange(width, device=images.device)
    rows = row + down
    columns = torch.where(mirrored > 0, width - 1 - column, column) + right
    pixels = rows.clamp(0, height - 1).unsqueeze(-1) * width + columns.clamp(0, width - 1).unsqueeze(-2)
    outside = beyond(rows, height).unsqueeze(-1) | beyond(columns, width).unsqueeze(-2)
    values = images.flatten(-2)
    result = values.gather(-1, pixels.flatten(-2).unsqueeze(-2).expand(values.shape)).view(images.shape)
    return result.masked_fill_(outside.unsqueeze(-3), 0)


def beyond(places: Tensor, size: int) -> Tensor:
    return (places < 0) | (places >= size)


def room(images: Tensor) -> int:
    """Bytes that moving these images takes for a moment besides them.

    The images before they are moved and those of the step before; for each pixel, where it comes from and whether it is
    outside.
    """
    return 2 * images.numel() * images.element_size() + 9 * images[..., 0, :, :].numel()
