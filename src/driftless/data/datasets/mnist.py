"""MNIST: handwritten digits, 28x28 pixels; 60,000 to train and 10,000 to test.

LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, Proc. IEEE 1998.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from driftless.data.array_checks import Ints
from driftless.data.examples import Examples
from driftless.data.fetch import RemoteFile, are_here, obtain
from driftless.data.formats.idx import read_idx
from driftless.data.formats.image_file import Pixels
from driftless.data.formats.label_file import checked_labels
from driftless.data.preprocessing.images import PixelStatistics, check_image_options, image_examples

Alternatives: TypeAlias = tuple[RemoteFile, ...]  # the same content under several names

PARTS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CLASSES = 10


def files_like_mnist(
    dataset: str, address: str, torchvision: str, sums: Mapping[str, str], advice: str = ""
) -> list[Alternatives]:
    """The four files of a data set laid out like MNIST: as published, unpacked, with a prefix, and torchvision's.

    `sums` are those of the unpacked files, because copies of MNIST and its successors are compressed in many ways.
    """

    def file(name: str, part: str, url: str | None = None) -> RemoteFile:
        return RemoteFile(name, url, checksum=f"unpacked-sha256:{sums[part]}", advice=advice if url else "")

    return [
        (
            file(f"{part}.gz", part, f"{address}{part}.gz"),
            file(part, part),
            file(f"{dataset}_{part}.gz", part),
            file(f"{torchvision}/raw/{part}.gz", part),
            file(f"{torchvision}/raw/{part}", part),
        )
        for part in PARTS
    ]


def load_like_mnist(
    dataset: str, files: Sequence[Alternatives], statistics: PixelStatistics, source: str, normalize: str
) -> Examples:
    """A data set of ten classes laid out like MNIST."""
    check_image_options(normalize)
    paths = [obtain(dataset, *alternatives) for alternatives in files]
    train, test = _read(*paths[:2]), _read(*paths[2:])
    return image_examples(train, test, CLASSES, statistics, source, normalize)


def _read(images_path: Path, labels_path: Path) -> tuple[Pixels, Ints]:
    images = read_idx(images_path, 3)[:, None]
    return images, checked_labels(read_idx(labels_path, 1), CLASSES, len(images), str(labels_path))


SOURCE = "MNIST, Y. LeCun, C. Cortes and C. Burges, 1998, usually given as CC BY-SA 3.0"
STATISTICS = PixelStatistics((0.1307,), (0.3081,))
FILES = files_like_mnist(
    "mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "MNIST",
    {
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)


def load(normalize: str = "dataset") -> Examples:
    return load_like_mnist("mnist", FILES, STATISTICS, SOURCE, normalize)


def is_here() -> bool:
    return are_here("mnist", *FILES)
