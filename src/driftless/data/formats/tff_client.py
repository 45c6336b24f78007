"""What the readers of TensorFlow Federated's HDF5 files and databases have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from driftless.errors import InputError

ClientReader: TypeAlias = Callable[[str, Sequence[str], int | None], list[Sequence[Any]]]
"""(client, fields, most examples) -> the values of each field."""


def check_fields(path: Path, client: str, fields: Sequence[str], found: Collection[str]) -> None:
    for field in fields:
        if field not in found:
            raise InputError(
                f"client '{client}' in {path} has no field '{field}', only {first_names(found)}; "
                "it may be the file of another data set."
            )


def first_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:8]) or "nothing"
