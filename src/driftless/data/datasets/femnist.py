"""FEMNIST: handwritten digits and letters, one client per writer; LEAF's files or those of TensorFlow Federated.

Both publish black ink on a white background, that is 1 for white. Here ink is 1 and the background 0, as in MNIST.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from driftless.data.examples import Examples, UserExamples, as_examples
from driftless.data.fetch import RemoteFile
from driftless.data.formats import leaf, tff
from driftless.errors import InputError, check_choice

UserRows: TypeAlias = tuple[str, npt.NDArray[Any], npt.NDArray[Any]]  # writer, images, labels

CLASSES, DIGITS = 62, 10
TEST_EVERY = 5  # a single file of LEAF is not ordered by time: every fifth example of a writer is for the test
PUBLISHED = tff.Published(
    "femnist",
    RemoteFile("emnist_all.sqlite.lzma", f"{tff.BUCKET}/emnist_all.sqlite.lzma", advice=leaf.advice("femnist")),
    splits=("all_train", "all_test"),
    stem="fed_emnist",
)


def load(digits_only: bool = False, source: str = "auto") -> Examples:
    """digits_only: the classes 0..9 instead of 62. source: "auto" (LEAF's files if found), "leaf", "tff"."""
    check_choice("digits_only", digits_only, (True, False))
    check_choice("source", source, ("auto", "leaf", "tff"))
    classes = DIGITS if digits_only else CLASSES
    train, test = (_concatenate(_keep_classes(rows, classes)) for rows in _rows(source))
    _make_ink_one(train, test)
    return as_examples(train, test, classes, "the files of data set 'femnist' have no training examples.")


def is_here() -> bool:
    return leaf.are_here("femnist") or PUBLISHED.are_here()


def _rows(source: str) -> tuple[Iterable[UserRows], Iterable[UserRows]]:
    if source == "tff" or (source == "auto" and not leaf.are_here("femnist")):
        train_split, test_split = PUBLISHED.locate()
        return _tff_rows(train_split), _tff_rows(test_split)
    train_path, test_path = leaf.locate("femnist")
    if test_path is not None:
        return _leaf_rows(train_path), _leaf_rows(test_path)
    everything = list(_leaf_rows(train_path))
    for_test = [np.arange(len(labels)) % TEST_EVERY == TEST_EVERY - 1 for _, _, labels in everything]
    train = [(user, x[~rows], y[~rows]) for (user, x, y), rows in zip(everything, for_test, strict=True)]
    test = [(user, x[rows], y[rows]) for (user, x, y), rows in zip(everything, for_test, strict=True)]
    return train, test


def _leaf_rows(path: Path) -> Iterator[UserRows]:
    for user in leaf.read_users(path):
        try:
            images = np.array(user.x, dtype=np.float32).reshape(len(user.x), 1, 28, 28)
            labels = np.array(user.y, dtype=np.int64).reshape(len(user.y))
        except (ValueError, TypeError) as error:
            raise user.error("is not 784 numbers and one label for each image") from error
        yield user.name, images, labels


def _tff_rows(split: tff.Split) -> Iterator[UserRows]:
    for name, (pixels, labels) in split.clients("pixels", "label"):
        try:
            images = np.asarray(pixels, dtype=np.float32).reshape(len(labels), 1, 28, 28)
        except ValueError as error:
            raise InputError(
                f"the pixels of client '{name}' in {split.path} are not images of 28x28; get the file again."
            ) from error
        yield name, images, np.asarray(labels, dtype=np.int64)


def _keep_classes(rows: Iterable[UserRows], classes: int) -> Iterator[UserRows]:
    for name, images, labels in rows:
        if len(labels) and not 0 <= labels.min() <= labels.max() < CLASSES:
            raise InputError(
                f"writer '{name}' of data set 'femnist' has labels from {labels.min()} to {labels.max()}; "
                f"FEMNIST's are 0..{CLASSES - 1}: get the file again."
            )
        kept = labels < classes
        yield name, images[kept], labels[kept]


def _concatenate(rows: Iterable[UserRows]) -> UserExamples | None:
    """Writers without images are left out; None if no writer has any."""
    kept = [row for row in rows if len(row[1])]
    if not kept:
        return None
    inputs, targets = (torch.from_numpy(np.concatenate([row[column] for row in kept])) for column in (1, 2))
    return UserExamples(inputs, targets, [name for name, images, _ in kept for _ in range(len(images))])


def _make_ink_one(train: UserExamples | None, test: UserExamples | None) -> None:
    """Invert all images in place if the first training images are mostly light: background covers more than ink."""
    if train is not None and train.inputs[:1000].mean() > 0.5:
        for part in (train, test):
            if part is not None:
                torch.sub(1.0, part.inputs, out=part.inputs)
