"""MNIST and Fashion-MNIST: 28x28 pixels, ten classes, 60,000 to train and 10,000 to test, in files of one layout.

LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, Proc. IEEE 1998.
Xiao, Rasul and Vollgraf, Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms, 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from driftless.data.array_checks import Ints
from driftless.data.examples import Examples
from driftless.data.fetch import RemoteFile, are_here, obtain
from driftless.data.formats.idx import read_idx
from driftless.data.formats.image_file import Pixels
from driftless.data.formats.label_file import checked_labels
from driftless.data.preprocessing.images import PixelStatistics, check_image_options, image_examples

CLASSES = 10


@dataclass(frozen=True)
class Published:
    """The four files of a data set laid out like MNIST, in the order of `checksums`."""

    name: str
    address: str
    torchvision: str  # torchvision's folder
    checksums: Mapping[str, str]  # sha256 of the unpacked files, because copies are compressed in many ways
    statistics: PixelStatistics
    advice: str = ""

    def load(self, normalize: str = "dataset") -> Examples:
        check_image_options(normalize)
        paths = [obtain(self.name, *self.forms_of(part)) for part in self.checksums]
        train, test = _read(*paths[:2]), _read(*paths[2:])
        return image_examples(train, test, CLASSES, self.statistics, normalize)

    def is_here(self) -> bool:
        return are_here(self.name, *map(self.forms_of, self.checksums))

    def forms_of(self, part: str) -> list[RemoteFile]:
        """A file as published, unpacked, with a prefix, and torchvision's."""
        checksum = f"unpacked-sha256:{self.checksums[part]}"
        others = (part, f"{self.name}_{part}.gz", f"{self.torchvision}/raw/{part}.gz", f"{self.torchvision}/raw/{part}")
        published = RemoteFile(f"{part}.gz", f"{self.address}{part}.gz", checksum, self.advice)
        return [published, *(RemoteFile(name, checksum=checksum) for name in others)]


MNIST = Published(
    "mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "MNIST",
    {
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    PixelStatistics((0.1307,), (0.3081,)),
)
FASHION_MNIST = Published(
    "fashion-mnist",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "FashionMNIST",
    {
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
    PixelStatistics((0.2860,), (0.3530,)),
    advice="on Debian and Ubuntu, apt-get install dataset-fashion-mnist",
)


def _read(images_path: Path, labels_path: Path) -> tuple[Pixels, Ints]:
    images = read_idx(images_path, 3)[:, None]
    return images, checked_labels(read_idx(labels_path, 1), CLASSES, len(images), str(labels_path))
