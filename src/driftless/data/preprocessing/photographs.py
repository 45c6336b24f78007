"""Photographs by user, split as in "Federated Visual Classification" (Hsu, Qi and Brown, ECCV 2020)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from driftless.data import fetch
from driftless.data.array_checks import as_count
from driftless.data.examples import Examples
from driftless.data.formats.image_csv import Row, image_paths, index_images, read_rows
from driftless.data.formats.image_file import read_square
from driftless.data.memory import check_memory
from driftless.errors import InputError

IMAGE_FOLDERS = ("images", "train_val_images", "train")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # as pretrained models expect
SPLITS_ADDRESS = "http://storage.googleapis.com/gresearch/federated-vision-datasets"
SPLIT_CITATION = "split by user: T.-M. H. Hsu, H. Qi and M. Brown, 'Federated Visual Classification', ECCV 2020"


def photographs_by_user(
    dataset: str, csv_names: tuple[str, ...], advice: str, source: str, size: int, limit_users: int | None
) -> Examples:
    """The images of the first csv file that exists and of the test csv file beside it, as squares of `size` pixels."""
    as_count("size", size, 1)
    if limit_users is not None:
        as_count("limit_users", limit_users, 1)
    path = fetch.find(dataset, *csv_names) or fetch.obtain(dataset, fetch.RemoteFile(csv_names[0], None, advice=advice))
    test_path = _test_csv(path)
    train, test = read_rows(path, with_users=True), read_rows(test_path, with_users=False)
    classes = 1 + max(row.label for row in (*train, *test))  # of all users, so that a model fits any choice of users
    train = _sorted_by_user(train, limit_users)
    folder = _image_folder(dataset, path)
    images = index_images(folder)
    train_images, test_images = image_paths(path, train, images, folder), image_paths(test_path, test, images, folder)
    check_memory(
        4 * 3 * size * size * (len(train) + len(test)),
        f"the {len(train) + len(test):,} images of {size}x{size} pixels",
        "lower size or limit_users",
    )
    return Examples(
        _inputs(train_images, size),
        torch.tensor([row.label for row in train]),
        source,
        test=(_inputs(test_images, size), torch.tensor([row.label for row in test])),
        classes=classes,
        users=[row.user for row in train],
    )


def _test_csv(train: Path) -> Path:
    path = train.parent / ("mini_gld_test.csv" if train.name.startswith("mini_gld") else "test.csv")
    if not path.is_file():
        raise InputError(f"{train} is here, but {path.name} is not beside it; put the csv of the test images there.")
    return path


def _sorted_by_user(rows: list[Row], limit_users: int | None) -> list[Row]:
    """By the users' first appearance: a federation of sorted rows needs no second copy of the images."""
    number: dict[str, int] = {}
    for row in rows:
        number.setdefault(row.user, len(number))
    kept = rows if limit_users is None else [row for row in rows if number[row.user] < limit_users]
    return sorted(kept, key=lambda row: number[row.user])


def _image_folder(dataset: str, csv_path: Path) -> Path:
    beside = next((csv_path.parent / name for name in IMAGE_FOLDERS if (csv_path.parent / name).is_dir()), None)
    return beside or fetch.find_folder(dataset, *IMAGE_FOLDERS) or csv_path.parent


def _inputs(paths: list[Path], size: int) -> Tensor:
    """[n, 3, size, size], normalised by ImageNet's colours."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (IMAGENET_MEAN, IMAGENET_STD))
    inputs = torch.empty(len(paths), 3, size, size)
    for place, path in zip(inputs, paths, strict=True):
        pixels = torch.from_numpy(read_square(path, size)).permute(2, 0, 1)
        torch.sub(pixels / 255, mean, out=place).div_(std)
    return inputs
