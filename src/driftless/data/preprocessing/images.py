"""From the bytes of images to the inputs of a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from driftless.data.array_checks import Ints
from driftless.data.examples import Examples
from driftless.data.formats.image_file import Pixels
from driftless.errors import InputError, check_choice, check_whole

CHUNK = 2048  # images converted at a time, so that no second copy of all of them as floats is needed


@dataclass(frozen=True)
class PixelStatistics:
    """Mean and standard deviation of the training images per channel, for pixels in 0..1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def check_image_options(normalize: str, crop: int | None = None, size: int = 0) -> None:
    """Called before any file is searched for."""
    check_choice("normalize", normalize, ("dataset", "image", "none"))
    if crop is not None and check_whole("crop", crop, 1) > size:
        raise InputError(f"crop={crop} is larger than the images, {size}x{size}; give at most {size}, or omit it.")


def image_examples(
    train: tuple[Pixels, Ints],
    test: tuple[Pixels, Ints],
    classes: int,
    statistics: PixelStatistics,
    normalize: str,
    crop: int | None = None,
    coarse: Ints | None = None,
) -> Examples:
    """Images [n, channels, height, width] with their labels, as normalised floats."""
    (inputs, targets), test_pair = (
        # labels are copied, because cached arrays are read-only
        (normalized(images, statistics, normalize, crop), torch.from_numpy(np.array(labels)))
        for images, labels in (train, test)
    )
    return Examples(inputs, targets, test_pair, classes, None if coarse is None else np.array(coarse))


def normalized(images: Pixels, statistics: PixelStatistics, normalize: str, crop: int | None = None) -> Tensor:
    """Floats [n, channels, height, width].

    normalize: "dataset" by the mean and deviation of the training images; "image" every image to mean 0 and deviation
    1; "none" the pixels in 0..1. crop: only the central crop x crop pixels.
    """
    if crop is not None:
        top, left = ((extent - crop) // 2 for extent in images.shape[2:])
        images = images[:, :, top : top + crop, left : left + crop]
    inputs = torch.empty(images.shape)
    mean, std = (torch.tensor(values)[:, None, None] for values in (statistics.mean, statistics.std))
    for start in range(0, len(images), CHUNK):
        part = inputs[start : start + CHUNK]
        part.numpy()[...] = images[start : start + CHUNK]
        part.div_(255)
        if normalize == "dataset":
            part.sub_(mean).div_(std)
        elif normalize == "image":
            deviation, center = torch.std_mean(part, dim=(1, 2, 3), correction=0, keepdim=True)
            # the bound keeps an image of one colour finite, as in tf.image.per_image_standardization
            part.sub_(center).div_(deviation.clamp(min=part[0].numel() ** -0.5))
    return inputs
