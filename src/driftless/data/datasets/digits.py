"""1,797 handwritten digits of 8x8 pixels, shipped with the package; 1,437 to train and 360 to test.

Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository 1998.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import torch

from driftless.data.array_checks import Ints
from driftless.data.examples import Examples
from driftless.data.partition import apportion

TEST_EXAMPLES = 360


def load() -> Examples:
    with (files("driftless.data") / "embedded" / "digits.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        images, labels = stored["images"], stored["labels"].astype(np.int64)
    inputs = torch.from_numpy(images).to(torch.float32).div(16).unsqueeze(1)  # pixels are 0..16; [n, 1, 8, 8]
    targets = torch.from_numpy(labels)
    in_test = torch.zeros(len(labels), dtype=torch.bool)
    in_test[_test_rows(labels)] = True
    return Examples(inputs[~in_test], targets[~in_test], test=(inputs[in_test], targets[in_test]), classes=10)


def _test_rows(labels: Ints) -> Ints:
    """Evenly spaced rows of each class: stratified, and the same for every seed and every version of numpy."""
    counts = np.bincount(labels)
    numbers = apportion(counts.astype(np.float64), TEST_EXAMPLES)
    return np.concatenate(
        [
            np.flatnonzero(labels == label)[np.arange(number) * count // number]
            for label, (count, number) in enumerate(zip(counts, numbers, strict=True))
        ]
    )
