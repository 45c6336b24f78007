"""Images by user: a csv with `user_id,image_id,class` and a folder of images (Hsu, Qi and Brown 2020).

GLDv2 (Landmarks-User-160k) and iNaturalist-User-120k are published so. The test csv has no users.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from driftless.data import fetch
from driftless.data.datasets.reading import check_room, open_text, reading
from driftless.data.datasets.source import Examples
from driftless.data.tensors import as_count
from driftless.errors import InputError

GLDV2, INATURALIST = "federated_train.csv", "federated_train_user_120k.csv"
SUFFIXES = (".jpg", ".jpeg", ".png")
FOLDERS = ("images", "train_val_images", "train")
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as pretrained models expect
SPLITS = "http://storage.googleapis.com/gresearch/federated-vision-datasets"
CITATION = "split by user: T.-M. H. Hsu, H. Qi and M. Brown, 'Federated Visual Classification', ECCV 2020"


@dataclass(frozen=True)
class Row:
    user: str  # empty in a test csv
    image: str
    label: int


def load_gldv2(size: int = 224, limit_users: int | None = None, train_csv: str = GLDV2) -> Examples:
    """Photographs of landmarks; size: of the square that an image is cut and scaled to."""
    advice = (
        f"unpack {SPLITS}/landmarks-user-160k.zip into the folder gldv2 of DRIFTLESS_DATA and put the images of "
        "Google Landmarks v2 into its folder images"
    )
    source = f"Google Landmarks Dataset v2, T. Weyand et al., 2020, CC BY 4.0; {CITATION}"
    return load("gldv2", _gldv2_names(train_csv), advice, source, size, limit_users)


def load_inaturalist(size: int = 224, limit_users: int | None = None, train_csv: str = INATURALIST) -> Examples:
    """Photographs of plants and animals; train_csv: the file of another split, such as one by place."""
    advice = (
        f"unpack {SPLITS}/inaturalist-user-120k.zip into the folder inaturalist of DRIFTLESS_DATA and put the images "
        "of iNaturalist 2017 into its folder train_val_images"
    )
    source = f"iNaturalist 2017, G. Van Horn et al., 2018, for research; {CITATION}"
    return load("inaturalist", _inaturalist_names(train_csv), advice, source, size, limit_users)


def gldv2_is_here() -> bool:
    return fetch.find("gldv2", *_gldv2_names()) is not None


def inaturalist_is_here() -> bool:
    return fetch.find("inaturalist", *_inaturalist_names()) is not None


def _gldv2_names(train_csv: str = GLDV2) -> tuple[str, ...]:
    """In its folder, in the archive's, and the smaller split of 23k images where the user asked for none."""
    return train_csv, f"landmarks-user-160k/{train_csv}", *(("mini_gld_train_split.csv",) if train_csv == GLDV2 else ())


def _inaturalist_names(train_csv: str = INATURALIST) -> tuple[str, ...]:
    return train_csv, f"inaturalist-user-120k/{train_csv}"


def load(
    dataset: str, names: tuple[str, ...], advice: str, source: str, size: int, limit_users: int | None
) -> Examples:
    as_count("size", size, 1)
    if limit_users is not None:
        as_count("limit_users", limit_users, 1)
    path = fetch.find(dataset, *names) or fetch.obtain(dataset, fetch.RemoteFile(names[0], None, advice=advice))
    test_path = _test_csv(path)
    train, test = read(path, with_users=True), read(test_path, with_users=False)
    classes = 1 + max(row.label for row in (*train, *test))  # of all users, so that a model suits any choice of them
    train = _by_user(train, limit_users)
    folder = _image_folder(dataset, path)
    files = _index(folder)
    where = {part: _locate(part, rows, files, folder) for part, rows in ((path, train), (test_path, test))}
    check_room(
        4 * 3 * size * size * (len(train) + len(test)),
        f"the {len(train) + len(test):,} images of {size}x{size} pixels",
        "lower size or limit_users",
    )
    return Examples(
        _images(where[path], size),
        torch.tensor([row.label for row in train]),
        source,
        test=(_images(where[test_path], size), torch.tensor([row.label for row in test])),
        classes=classes,
        users=[row.user for row in train],
    )


def read(path: Path, *, with_users: bool) -> list[Row]:
    """The rows of a csv, whose columns may be in any order."""
    needed = ("user_id", "image_id", "class") if with_users else ("image_id", "class")
    rows: list[Row] = []
    with reading(path, "csv"), open_text(path) as file:
        table = csv.DictReader(file)
        columns = list(table.fieldnames or ())
        lacking = [name for name in needed if name not in columns]
        if lacking:
            raise InputError(
                f"{path} has no column {' and '.join(lacking)}, only {', '.join(columns[:8]) or 'nothing'}; "
                f"it needs {', '.join(needed)} in its first line."
            )
        for entry in table:
            values = [entry[name] for name in needed]
            if not all(values) or not values[-1].isdecimal():
                raise InputError(
                    f"line {table.line_num} of {path} has {dict(zip(needed, values, strict=True))}; "
                    f"{', '.join(needed)} must be there, and the class a number from 0."
                )
            rows.append(Row(values[0] if with_users else "", values[-2], int(values[-1])))
    if not rows:
        raise InputError(f"{path} has no rows; get it again.")
    return rows


def _test_csv(train: Path) -> Path:
    path = train.parent / ("mini_gld_test.csv" if train.name.startswith("mini_gld") else "test.csv")
    if not path.is_file():
        raise InputError(f"{train} is here, but {path.name} is not beside it; put the csv of the test images there.")
    return path


def _by_user(rows: list[Row], limit_users: int | None) -> list[Row]:
    """Sorted by the users' first appearance: a federation of sorted rows needs no second copy of the images."""
    number: dict[str, int] = {}
    for row in rows:
        number.setdefault(row.user, len(number))
    kept = rows if limit_users is None else [row for row in rows if number[row.user] < limit_users]
    return sorted(kept, key=lambda row: number[row.user])


def _image_folder(dataset: str, csv_path: Path) -> Path:
    beside = next((csv_path.parent / name for name in FOLDERS if (csv_path.parent / name).is_dir()), None)
    return beside or fetch.find_folder(dataset, *FOLDERS) or csv_path.parent


def _index(folder: Path) -> dict[str, Path]:
    """All images below the folder by their names without ending: GLDv2 has a/b/c/abc....jpg, iNaturalist kind/name/."""
    found: dict[str, Path] = {}
    for root, _, names in os.walk(folder):
        for name in names:
            stem, suffix = os.path.splitext(name)
            if suffix.lower() in SUFFIXES:
                found[stem] = Path(root, name)
    return found


def _locate(path: Path, rows: list[Row], files: dict[str, Path], folder: Path) -> list[Path]:
    stems = [_stem(row.image) for row in rows]
    absent = [row.image for row, stem in zip(rows, stems, strict=True) if stem not in files]
    if absent:
        raise InputError(
            f"{len(absent)} of the {len(rows)} images that {path} names are not below {folder}, the first is "
            f"'{absent[0]}'; put them there ({', '.join(SUFFIXES)})."
        )
    return [files[stem] for stem in stems]


def _stem(image: str) -> str:
    name = image.rpartition("/")[2]
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in SUFFIXES else name


def _images(paths: list[Path], size: int) -> Tensor:
    """[n, 3, size, size]: the largest square in the middle, scaled to `size`, normalised by ImageNet's colours."""
    import numpy as np
    from PIL import Image, ImageOps

    mean, deviation = (torch.tensor(values)[:, None, None] for values in (MEAN, DEVIATION))
    images = torch.empty(len(paths), 3, size, size)
    for place, path in zip(images, paths, strict=True):
        try:
            with Image.open(path) as image:
                square = ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.BILINEAR)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise InputError(f"{path} cannot be read as an image ({error}); get it again.") from error
        pixels = torch.from_numpy(np.array(square)).permute(2, 0, 1)
        torch.sub(pixels / 255, mean, out=place).div_(deviation)
    return images
