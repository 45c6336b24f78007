"""Images by user: a csv file with `user_id,image_id,class` and a folder of images (Hsu, Qi and Brown 2020)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from driftless.data.formats.archive import open_text
from driftless.data.formats.file_errors import report_damage
from driftless.errors import InputError

SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class Row:
    user: str  # empty in the csv file of the test images
    image: str
    label: int


def read_rows(path: Path, *, with_users: bool) -> list[Row]:
    """The columns may be in any order."""
    needed = ("user_id", "image_id", "class") if with_users else ("image_id", "class")
    rows: list[Row] = []
    with report_damage(path, "csv"), open_text(path) as file:
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


def image_paths(folder: Path, rows_of: Mapping[Path, list[Row]]) -> list[list[Path]]:
    """The paths of the images of each csv file; an image may be anywhere below the folder.

    GLDv2 has a/b/c/abc....jpg, iNaturalist kind/species/name.jpg.
    """
    images = {path.stem: path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES}
    return [_paths_of(csv_path, rows, images, folder) for csv_path, rows in rows_of.items()]


def _paths_of(csv_path: Path, rows: list[Row], images: dict[str, Path], folder: Path) -> list[Path]:
    stems = [_stem(row.image) for row in rows]
    absent = [row.image for row, stem in zip(rows, stems, strict=True) if stem not in images]
    if absent:
        raise InputError(
            f"{len(absent)} of the {len(rows)} images that {csv_path} names are not below {folder}, the first is "
            f"'{absent[0]}'; put them there ({', '.join(SUFFIXES)})."
        )
    return [images[stem] for stem in stems]


def _stem(image: str) -> str:
    """The name without folder and suffix."""
    path = PurePosixPath(image)
    return path.stem if path.suffix.lower() in SUFFIXES else path.name
