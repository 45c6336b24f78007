"""Photographs by user: Google Landmarks v2 (Landmarks-User-160k) and iNaturalist 2017 (iNaturalist-User-120k).

Weyand et al., Google Landmarks Dataset v2, CVPR 2020. Van Horn et al., The iNaturalist species classification and
detection dataset, CVPR 2018. Splits by user: Hsu, Qi and Brown, Federated Visual Classification, ECCV 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from driftless.data import fetch
from driftless.data.examples import Examples
from driftless.data.formats.image_csv import Row, image_paths, read_rows
from driftless.data.formats.image_file import decode_rgb
from driftless.data.memory import check_memory
from driftless.errors import InputError, check_whole

IMAGE_FOLDERS = ("images", "train_val_images", "train")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # as pretrained models expect
SPLITS_ADDRESS = "http://storage.googleapis.com/gresearch/federated-vision-datasets"


@dataclass(frozen=True)
class Published:
    """What is published of a data set: an archive with csv files, in a folder of the same name, and the images."""

    dataset: str
    archive: str
    images: str  # which images belong into which folder
    train_csv: str

    def is_here(self) -> bool:
        return fetch.are_here(self.dataset, self.forms_of(self.train_csv))

    def forms_of(self, csv: str) -> tuple[fetch.RemoteFile, ...]:
        """A csv file in the data set's folder, and in the folder of the archive."""
        advice = (
            f"unpack {SPLITS_ADDRESS}/{self.archive}.zip into the folder {self.dataset} of DRIFTLESS_DATA and put the "
            f"images of {self.images}"
        )
        return fetch.RemoteFile(csv, advice=advice), fetch.RemoteFile(f"{self.archive}/{csv}")


GLDV2 = Published(
    "gldv2",
    "landmarks-user-160k",
    "Google Landmarks v2 into its folder images",
    "federated_train.csv",
)
INATURALIST = Published(
    "inaturalist",
    "inaturalist-user-120k",
    "iNaturalist 2017 into its folder train_val_images",
    "federated_train_user_120k.csv",
)


def load_gldv2(size: int = 224, limit_users: int | None = None, train_csv: str = GLDV2.train_csv) -> Examples:
    """size: of the square that an image is cut and scaled to. train_csv: the file of another split."""
    return _load(GLDV2, size, limit_users, train_csv)


def load_inaturalist(
    size: int = 224, limit_users: int | None = None, train_csv: str = INATURALIST.train_csv
) -> Examples:
    """The same options; another split is, for example, one by place."""
    return _load(INATURALIST, size, limit_users, train_csv)


def _load(published: Published, size: int, limit_users: int | None, train_csv: str) -> Examples:
    check_whole("size", size, 1)
    if limit_users is not None:
        check_whole("limit_users", limit_users, 1)
    path = fetch.obtain(published.dataset, *published.forms_of(train_csv))
    test_path = path.parent / "test.csv"
    if not test_path.is_file():
        raise InputError(f"{path} is here, but test.csv is not beside it; put the csv of the test images there.")
    train, test = read_rows(path, with_users=True), read_rows(test_path, with_users=False)
    classes = 1 + max(row.label for row in (*train, *test))  # of all users, so that a model fits any choice of users
    train = _sorted_by_user(train, limit_users)
    train_images, test_images = image_paths(_image_folder(published.dataset, path), {path: train, test_path: test})
    check_memory(
        4 * 3 * size * size * (len(train) + len(test)),
        f"the {len(train) + len(test):,} images of {size}x{size} pixels",
        "lower size or limit_users",
    )
    return Examples(
        _inputs(train_images, size),
        torch.tensor([row.label for row in train]),
        test=(_inputs(test_images, size), torch.tensor([row.label for row in test])),
        classes=classes,
        users=[row.user for row in train],
    )


def _sorted_by_user(rows: list[Row], limit_users: int | None) -> list[Row]:
    """By the users' first appearance: a federation of sorted rows needs no second copy of the images."""
    number = {user: i for i, user in enumerate(dict.fromkeys(row.user for row in rows))}
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
        pixels = torch.from_numpy(decode_rgb(path, path, size)).permute(2, 0, 1)
        torch.sub(pixels / 255, mean, out=place).div_(std)
    return inputs
