"""From the data of one user after the other to the examples of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from driftless.data.datasets.source import Examples
from driftless.errors import InputError

Array: TypeAlias = npt.NDArray[Any]

TEST_SHARE = 0.2


@dataclass(frozen=True)
class Part:
    """The training or the test examples; those of a user are consecutive."""

    inputs: Tensor
    targets: Tensor
    users: list[str]

    @property
    def pair(self) -> tuple[Tensor, Tensor]:
        return self.inputs, self.targets


def gather(rows: Iterable[tuple[str, Array, Array]]) -> Part | None:
    """(user, inputs, targets) of all users as one part; users without examples are left out, None if nobody has any."""
    kept = [row for row in rows if len(row[1])]
    if not kept:
        return None
    inputs = torch.from_numpy(np.concatenate([inputs for _, inputs, _ in kept]))
    targets = torch.from_numpy(np.concatenate([targets for _, _, targets in kept]))
    return Part(inputs, targets, repeat_names([user for user, _, _ in kept], [len(x) for _, x, _ in kept]))


def repeat_names(names: Iterable[str], counts: Iterable[int]) -> list[str]:
    return [name for name, count in zip(names, counts, strict=True) for _ in range(count)]


def number_for_test(n: int) -> int:
    """How many of a user's n examples or characters, the last in time, are for the test: a fifth, rounded down."""
    return int(n * TEST_SHARE)


def as_examples(train: Part | None, test: Part | None, classes: int, source: str, empty: str) -> Examples:
    """`empty` is what to say when no user has training examples."""
    if train is None:
        raise InputError(empty)
    return Examples(
        train.inputs,
        train.targets,
        source,
        test=test.pair if test else None,
        classes=classes,
        users=train.users,
        test_users=test.users if test else None,
    )
