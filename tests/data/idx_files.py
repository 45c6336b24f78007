"""Writers of small files in the idx format, laid out like MNIST."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

NAMES = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]


def as_idx(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


def small_set(seed: int = 0, first_label: int = 0, classes: int = 10) -> list[np.ndarray]:
    """Images and labels of a training and a test set, in the order of NAMES."""
    rng = np.random.default_rng(seed)
    parts = []
    for n in (classes * 3, classes):
        parts += [rng.integers(0, 256, (n, 28, 28)), first_label + np.arange(n) % classes]
    return parts


def write_idx_files(folder: Path, parts: list[np.ndarray], pattern: str) -> None:
    for name, values in zip(NAMES, parts, strict=True):
        path = folder / pattern.format(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = as_idx(values)
        path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
