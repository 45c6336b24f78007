"""CIFAR-100: photographs of 32x32 pixels in 100 classes, grouped in 20 coarse ones; 50,000 to train and 10,000 to test.

Krizhevsky, Learning multiple layers of features from tiny images, 2009.
"""

from __future__ import annotations

import numpy as np

from driftless.data.array_cache import Arrays, cached_arrays
from driftless.data.datasets.cifar10 import ADDRESS, SOURCE, Reader
from driftless.data.examples import Examples
from driftless.data.fetch import RemoteFile, are_here, find, obtain
from driftless.data.formats import cifar_archive
from driftless.data.formats.image_mosaic import images_from_tiles
from driftless.data.formats.label_file import npz_labels
from driftless.data.preprocessing.images import PixelStatistics, check_image_options, image_examples

STATISTICS = PixelStatistics((0.50707516, 0.48654887, 0.44091784), (0.26733429, 0.25643846, 0.27615047))
LAYOUT = cifar_archive.Layout(
    train=("train",),
    test=("test",),
    classes={"labels": 100, "coarse": 20},
    keys={"labels": b"fine_labels", "coarse": b"coarse_labels"},
    columns=("coarse", "labels"),
)
PYTHON = RemoteFile(
    "cifar-100-python.tar.gz", f"{ADDRESS}cifar-100-python.tar.gz", md5="eb9058c3a382ffc7106e4002c42a8d85"
)
BINARY = RemoteFile("cifar-100-binary.tar.gz", None, md5="03b5dce01913d631647c71ecec9e9cb8")
ARCHIVES = (PYTHON, BINARY)
MOSAICS = (
    RemoteFile(
        "cifar100_train_a.webp", None, sha256="2ec365eb16a2508ab0440ad2d1db7307c7defc876559cd86c4bc45e0f2211ade"
    ),
    RemoteFile(
        "cifar100_train_b.webp", None, sha256="56062355af22161b90faa8e75d76787e23bc0867b0c05369f9b082edff9bbc0a"
    ),
    RemoteFile("cifar100_test.webp", None, sha256="790d2f15e69bbfb7a2deb0862da891acbfeb8d1dff1e5c0ad5b420298a9da0c5"),
)
MOSAIC_COLUMNS = 100
LABELS = RemoteFile(
    "cifar100_labels.npz",
    None,
    sha256="809ba2b57c3b58177e412420f66294825c02debcda20a27a3d18c22324bb0728",
    advice="put the official cifar-100-python.tar.gz there, which has images and labels",
)


def load(normalize: str = "dataset", crop: int | None = None) -> Examples:
    check_image_options(normalize, crop, cifar_archive.SIDE)
    mosaics = find("cifar100", MOSAICS[0].name) and not are_here("cifar100", ARCHIVES)
    files, read = _mosaics() if mosaics else _archive()
    arrays = cached_arrays("cifar100", files, read)
    train, test = ((arrays[f"{name}_images"], arrays[f"{name}_labels"]) for name in ("train", "test"))
    source = SOURCE.format("CIFAR-100")
    return image_examples(train, test, 100, STATISTICS, source, normalize, crop, coarse=arrays["train_coarse"])


def is_here() -> bool:
    return are_here("cifar100", ARCHIVES) or are_here("cifar100", *[(file,) for file in (*MOSAICS, LABELS)])


def _archive() -> Reader:
    path = obtain("cifar100", *ARCHIVES)
    is_python = path.name == PYTHON.name
    read = cifar_archive.read_python_archive if is_python else cifar_archive.read_binary_archive
    return [path], lambda: read(path, LAYOUT)


def _mosaics() -> Reader:
    mosaics = [obtain("cifar100", file) for file in MOSAICS]
    labels = obtain("cifar100", LABELS)

    def read() -> Arrays:
        fine_train, coarse_train, fine_test, coarse_test = npz_labels(
            labels, "fine_train", "coarse_train", "fine_test", "coarse_test"
        )
        side, columns = cifar_archive.SIDE, MOSAIC_COLUMNS
        *train, test = (images_from_tiles(path.read_bytes(), side, columns, path) for path in mosaics)
        where, classes = str(labels), LAYOUT.classes
        return cifar_archive.train_and_test(
            cifar_archive.checked_split(
                np.concatenate(train), {"labels": fine_train, "coarse": coarse_train}, classes, where
            ),
            cifar_archive.checked_split(test, {"labels": fine_test, "coarse": coarse_test}, classes, where),
        )

    return [*mosaics, labels], read
