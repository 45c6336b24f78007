"""EMNIST Letters: handwritten letters, 28x28 pixels, and its first ten letters, called EMNIST-L in federated papers.

Cohen, Afshar, Tapson and van Schaik, EMNIST: an extension of MNIST to handwritten letters, 2017.
"""

from __future__ import annotations

import numpy as np

from driftless.data.array_checks import Ints
from driftless.data.examples import Examples
from driftless.data.fetch import RemoteFile, are_here, find, obtain
from driftless.data.formats.archive import zip_member
from driftless.data.formats.idx import parse_idx, read_idx
from driftless.data.formats.image_file import Pixels
from driftless.data.formats.label_file import checked_labels
from driftless.data.preprocessing.images import PixelStatistics, check_image_options, image_examples

STATISTICS = PixelStatistics((0.1722,), (0.3309,))
LETTERS = 26
_CHECKSUM = "md5:58c8d27c78d21e728a6bc7b3cc06412e"
ARCHIVE = (
    RemoteFile(
        "gzip.zip",
        "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
        checksum=_CHECKSUM,
        advice="its four members emnist-letters-*-ubyte.gz are enough",
    ),
    RemoteFile("emnist.zip", checksum=_CHECKSUM),
    RemoteFile("EMNIST/raw/gzip.zip", checksum=_CHECKSUM),
)
"""All of EMNIST as published; 562 MB."""
_CHECKSUMS = {  # where known; of the packed files
    "emnist-letters-train-images-idx3-ubyte": "sha256:6288f418a917e007bf5fddb823a2dc7a5c6a35031401b93292a539cb12bd881f",
    "emnist-letters-test-images-idx3-ubyte": "sha256:50f0e93d75b99b463e9760b8345866f22587fa2c2fba472730a5ba09c693412d",
}


def load_letters(normalize: str = "dataset") -> Examples:
    return _load(LETTERS, normalize)


def load_l(normalize: str = "dataset") -> Examples:
    return _load(10, normalize)


def is_here() -> bool:
    return are_here("emnist", ARCHIVE) or are_here("emnist", *(_alternatives(part) for part in _parts("train", "test")))


def _load(letters: int, normalize: str) -> Examples:
    """The first `letters` letters of the alphabet."""
    check_image_options(normalize)
    train, test = (_split(name, letters) for name in ("train", "test"))
    return image_examples(train, test, letters, STATISTICS, normalize)


def _split(split: str, letters: int) -> tuple[Pixels, Ints]:
    (images, _), (numbers, where) = (_read(part, 3 if "images" in part else 1) for part in _parts(split))
    labels = checked_labels(numbers.astype(np.int64) - 1, LETTERS, len(images), where)  # the file counts from 1
    chosen = labels < letters
    upright = images[chosen].transpose(0, 2, 1)  # EMNIST stores its images column by column
    return upright[:, None], labels[chosen]


def _parts(*splits: str) -> list[str]:
    return [f"emnist-letters-{split}-{kind}-ubyte" for split in splits for kind in ("images-idx3", "labels-idx1")]


def _alternatives(part: str) -> list[RemoteFile]:
    """The file of one part, taken out of the archive; it is not published on its own."""
    packed = RemoteFile(f"{part}.gz", checksum=_CHECKSUMS.get(part))
    return [packed, RemoteFile(part), RemoteFile(f"EMNIST/raw/{part}")]


def _read(part: str, dimensions: int) -> tuple[Pixels, str]:
    """The array, and the name of its file for errors."""
    files = _alternatives(part)
    if find("emnist", *[file.name for file in files]):
        path = obtain("emnist", *files)
        return read_idx(path, dimensions), str(path)
    archive = obtain("emnist", *ARCHIVE)
    where = f"{archive} (member {part}.gz)"
    return parse_idx(zip_member(archive, f"{part}.gz"), dimensions, where), where
