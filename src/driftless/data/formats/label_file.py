"""Labels in a file of their own: a JSON list, or arrays of an npz file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from driftless.data.array_checks import Ints
from driftless.data.formats.file_errors import report_damage, unreadable
from driftless.errors import InputError


def json_labels(content: bytes, where: object) -> list[Any]:
    with report_damage(where):
        labels = json.loads(content)
    if not isinstance(labels, list):
        raise unreadable(where, "it is not a list of labels")
    return labels


def npz_labels(path: Path, *names: str) -> list[npt.NDArray[Any]]:
    """The arrays with these names."""
    try:
        with open(path, "rb") as file:
            stored = np.load(file, allow_pickle=False)
            available = list(stored.files)
            arrays = {name: stored[name] for name in names if name in available}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise unreadable(path, error) from error  # AttributeError: an .npy file, which numpy loads without `files`
    for name in names:
        if name not in arrays:
            raise InputError(
                f"{path} has no array '{name}' (it has {', '.join(available) or 'none'}); "
                "get the complete file of labels, or use the official archive instead."
            )
    return [arrays[name] for name in names]


def checked_labels(labels: npt.ArrayLike | Sequence[int], classes: int, images: int, where: str) -> Ints:
    """One label in 0..classes-1 for each of the `images`; `where` names the file of the labels in errors."""
    values = np.asarray(labels)
    if values.shape != (images,) or values.dtype.kind not in "iu":
        kind = "" if values.dtype.kind in "iu" else f" of type {values.dtype}"
        raise InputError(
            f"{where} has labels of shape {list(values.shape)}{kind} for {images} images; one whole number is "
            "needed for each. The files do not belong together or one is damaged: delete both and get them again."
        )
    if images and (values.min() < 0 or values.max() >= classes):
        raise InputError(
            f"{where} has labels from {values.min()} to {values.max()}, the data set's go from 0 to {classes - 1}; "
            "it is damaged or belongs to another data set: delete it and get it again."
        )
    return values.astype(np.int64)
