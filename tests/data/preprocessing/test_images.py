from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftless.data import load
from driftless.data.preprocessing import images
from driftless.data.preprocessing.images import PixelStatistics, normalized
from driftless.errors import InputError


def test_a_central_crop_and_the_standardisation_of_each_image():
    pixels = np.random.default_rng(0).integers(0, 256, (images.CHUNK + 3, 3, 8, 6)).astype(np.uint8)
    pixels[1] = 77  # of one colour
    inputs = normalized(pixels, PixelStatistics((0.5,) * 3, (0.5,) * 3), "image", crop=4)
    assert inputs.shape == (images.CHUNK + 3, 3, 4, 4)
    expected = pixels[:, :, 2:6, 1:5] / 255
    means = expected.mean((1, 2, 3), keepdims=True)
    stds = expected.std((1, 2, 3), keepdims=True)
    stds[1] = 1 / math.sqrt(48)
    np.testing.assert_allclose(inputs.numpy(), (expected - means) / stds, atol=1e-4)
    assert inputs[1].abs().max() < 1e-5
    whole = normalized(pixels, PixelStatistics((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)), "dataset")
    np.testing.assert_allclose(whole[-1, 2].numpy(), (pixels[-1, 2] / 255 - 0.3) / 0.7, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mnist", {"normalize": True}, "normalize must be one of 'dataset', 'image', 'none', got True"),
        ("cifar10", {"crop": 33}, "crop=33 is larger than the images, 32x32"),
        ("cifar100", {"crop": 0}, "crop must be a whole number of at least 1, got 0"),
    ],
)
def test_a_wrong_option_is_reported_before_a_file_is_searched_for(
    name: str, options: dict[str, Any], message: str, folder: Path
):
    with pytest.raises(InputError, match=message):
        load(name, **options)
