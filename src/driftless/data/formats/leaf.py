"""LEAF's files: JSON with `users`, `num_samples` and `user_data`, in folders `train` and `test` of one or more files.

Caldas et al. 2018, "LEAF: A Benchmark for Federated Settings". Users are read file by file, because the lists of one
file of FEMNIST take ten times the memory of its arrays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftless.data import fetch
from driftless.data.formats.archive import open_text
from driftless.data.formats.file_errors import report_damage
from driftless.errors import InputError

ENDINGS = (".json", ".json.gz")


@dataclass(frozen=True)
class User:
    name: str
    x: list[Any]
    y: list[Any]
    path: Path  # named in errors

    def error(self, problem: str) -> InputError:
        return InputError(f"the data of user '{self.name}' in {self.path} {problem}; make the file again with LEAF.")


def locate(dataset: str) -> tuple[Path, Path | None]:
    """The folders `train` and `test` of this data set; or a single file with all examples of each user, and None."""
    train = _training_path(dataset)
    if train is None:
        raise InputError(f"LEAF's files of data set '{dataset}' are not here; {advice(dataset)}.")
    if train.is_file():
        return train, None
    test = train.parent / "test"
    if not test.is_dir():
        raise InputError(f"{train} has LEAF's training files, but {test} is missing; put LEAF's folder test there.")
    return train, test


def are_here(dataset: str) -> bool:
    return _training_path(dataset) is not None


def advice(dataset: str) -> str:
    return (
        f"make them with LEAF's data/{dataset}/preprocess.sh and put its folders train and test into the folder "
        f"{dataset} of DRIFTLESS_DATA"
    )


def _training_path(dataset: str) -> Path | None:
    """The folder `train`, also in `data` where LEAF writes it; or the single file."""
    folder = fetch.find_folder(dataset, "train", "data/train", f"{dataset}/data/train")
    if folder is not None and _files(folder):
        return folder
    return fetch.find(dataset, *(f"{name}{ending}" for name in (dataset, "all_data") for ending in ENDINGS))


def read_users(path: Path) -> Iterator[User]:
    """All users of a file, or of all files of a folder by name; including users without examples."""
    files = _files(path) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path} has no files that end in {' or '.join(ENDINGS)}; put LEAF's files there.")
    for file in files:
        yield from _users(file, _content(file))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS))


def _content(path: Path) -> dict[str, Any]:
    with report_damage(path, "JSON"), open_text(path) as file:
        content = json.load(file)
    keys = ("users", "num_samples", "user_data")
    lacking = [key for key in keys if not isinstance(content, dict) or key not in content]
    if lacking:
        found = f"the keys {', '.join(list(content)[:5])}" if isinstance(content, dict) else type(content).__name__
        raise InputError(
            f"{path} is not one of LEAF's files: it has {found or 'no keys'} and no '{lacking[0]}'; "
            f"a file of LEAF has {', '.join(keys)}."
        )
    return content


def _users(path: Path, content: dict[str, Any]) -> Iterator[User]:
    users, numbers, data = content["users"], content["num_samples"], content["user_data"]
    if len(users) != len(numbers):
        raise InputError(
            f"{path} has {len(users)} users, but {len(numbers)} entries of num_samples; make the file again with LEAF."
        )
    for name, number in zip(users, numbers, strict=True):
        own = data.pop(name, None)  # popped, so that its memory is freed once it was read
        if not isinstance(own, dict) or not isinstance(own.get("x"), list) or not isinstance(own.get("y"), list):
            raise User(str(name), [], [], path).error("has no lists x and y")
        user = User(str(name), own["x"], own["y"], path)
        if not len(user.x) == len(user.y) == number:
            raise user.error(f"has {len(user.x)} x and {len(user.y)} y, but num_samples says {number}")
        yield user
