"""From the bytes of images to the inputs of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from driftless.data.tensors import Ints, as_count
from driftless.errors import InputError, check_choice

Pixels: TypeAlias = npt.NDArray[np.uint8]  # [n, channels, height, width]

CHUNK = 2048  # images at a time, so that no second copy of all of them as floats is needed


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of the training images, one of each per channel, for pixels in 0..1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def check_options(normalize: str, crop: int | None = None, size: int = 0) -> None:
    """Before any file is looked for."""
    check_choice("normalize", normalize, ("dataset", "image", "none"))
    if crop is not None and as_count("crop", crop, 1) > size:
        raise InputError(f"crop={crop} is larger than the images, {size}x{size}; give at most {size}, or omit it.")


def as_inputs(images: Pixels, scale: Scale, normalize: str, crop: int | None = None) -> Tensor:
    """Floats [n, channels, height, width].

    normalize: "dataset" by the mean and the deviation of the training images; "image" every image to mean 0 and
    deviation 1; "none" the pixels in 0..1. crop: only the central crop x crop pixels.
    """
    if crop is not None:
        top, left = ((extent - crop) // 2 for extent in images.shape[2:])
        images = images[:, :, top : top + crop, left : left + crop]
    inputs = torch.empty(images.shape)
    mean, std = (torch.tensor(values)[:, None, None] for values in (scale.mean, scale.std))
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


def as_labels(labels: npt.ArrayLike | Sequence[int], classes: int, images: int, where: str) -> Ints:
    """One label in 0..classes-1 for each image; `where` names the file of the labels."""
    values = np.asarray(labels)
    if values.shape != (images,) or values.dtype.kind not in "iu":
        kind = "" if values.dtype.kind in "iu" else f" of type {values.dtype}"
        raise InputError(
            f"{where} has labels of shape {list(values.shape)}{kind} for {images} images; one whole number is "
            "needed for each. The files do not belong together or one is damaged: delete both and get them again."
        )
    if images and (values.min() < 0 or values.max() >= classes):
        raise InputError(
            f"{where} has labels from {values.min()} to {values.max()}, the data set's go from 0 to {classes - 1}; "
            "it is damaged or belongs to another data set: delete it and get it again."
        )
    return values.astype(np.int64)
