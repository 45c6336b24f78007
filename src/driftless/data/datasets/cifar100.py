"""CIFAR-100: photographs of 32x32 pixels in 100 classes, grouped in 20 coarse ones; 50,000 to train and 10,000 to test.

Krizhevsky, Learning multiple layers of features from tiny images, 2009.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from driftless.data.array_cache import Arrays, cached_arrays
from driftless.data.datasets.cifar10 import ADDRESS
from driftless.data.examples import Examples
from driftless.data.fetch import RemoteFile, are_here, find, obtain
from driftless.data.formats.cifar_archive import SIDE, Layout, Reader, checked_split, read_archive, train_and_test
from driftless.data.formats.file_errors import unreadable
from driftless.data.formats.image_file import Pixels, decode_rgb
from driftless.data.formats.label_file import npz_labels
from driftless.data.preprocessing.images import PixelStatistics, check_image_options, image_examples

STATISTICS = PixelStatistics((0.50707516, 0.48654887, 0.44091784), (0.26733429, 0.25643846, 0.27615047))
LAYOUT = Layout(
    train=("train",),
    test=("test",),
    labels={"coarse": (b"coarse_labels", 20), "labels": (b"fine_labels", 100)},
)
ARCHIVES = (
    RemoteFile("cifar-100-python.tar.gz", f"{ADDRESS}cifar-100-python.tar.gz", "md5:eb9058c3a382ffc7106e4002c42a8d85"),
    RemoteFile("cifar-100-binary.tar.gz", checksum="md5:03b5dce01913d631647c71ecec9e9cb8"),
)
MOSAICS = tuple(
    RemoteFile(name, checksum=f"sha256:{checksum}")
    for name, checksum in (
        ("cifar100_train_a.webp", "2ec365eb16a2508ab0440ad2d1db7307c7defc876559cd86c4bc45e0f2211ade"),
        ("cifar100_train_b.webp", "56062355af22161b90faa8e75d76787e23bc0867b0c05369f9b082edff9bbc0a"),
        ("cifar100_test.webp", "790d2f15e69bbfb7a2deb0862da891acbfeb8d1dff1e5c0ad5b420298a9da0c5"),
    )
)
MOSAIC_WIDTH = 100 * SIDE
LABELS = RemoteFile(
    "cifar100_labels.npz",
    checksum="sha256:809ba2b57c3b58177e412420f66294825c02debcda20a27a3d18c22324bb0728",
    advice="put the official cifar-100-python.tar.gz there, which has images and labels",
)


def load(normalize: str = "dataset", crop: int | None = None) -> Examples:
    check_image_options(normalize, crop, SIDE)
    mosaics = find("cifar100", MOSAICS[0].name) and not are_here("cifar100", ARCHIVES)
    files, read = _mosaics() if mosaics else _archive()
    arrays = cached_arrays("cifar100", files, read)
    train, test = ((arrays[f"{name}_images"], arrays[f"{name}_labels"]) for name in ("train", "test"))
    return image_examples(train, test, 100, STATISTICS, normalize, crop, coarse=arrays["train_coarse"])


def is_here() -> bool:
    return are_here("cifar100", ARCHIVES) or are_here("cifar100", *[(file,) for file in (*MOSAICS, LABELS)])


def _archive() -> Reader:
    path = obtain("cifar100", *ARCHIVES)
    return [path], lambda: read_archive(path, LAYOUT)


def _mosaics() -> Reader:
    mosaics = [obtain("cifar100", file) for file in MOSAICS]
    labels = obtain("cifar100", LABELS)

    def split(name: str, paths: list[Path]) -> Arrays:
        fine, coarse = npz_labels(labels, f"fine_{name}", f"coarse_{name}")
        images = np.concatenate([_tiles(path) for path in paths])
        return checked_split(images, {"labels": fine, "coarse": coarse}, LAYOUT, str(labels))

    return [*mosaics, labels], lambda: train_and_test(split("train", mosaics[:-1]), split("test", mosaics[-1:]))


def _tiles(path: Path) -> Pixels:
    """A picture of 100 images in a row, read from left to right and from top to bottom; [n, 3, 32, 32]."""
    picture = decode_rgb(path, path)
    height, width, _ = picture.shape
    if width != MOSAIC_WIDTH or height % SIDE:
        raise unreadable(path, f"it has {width}x{height} pixels, a mosaic {MOSAIC_WIDTH} by a multiple of {SIDE}")
    return picture.reshape(-1, SIDE, width // SIDE, SIDE, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, SIDE, SIDE)
