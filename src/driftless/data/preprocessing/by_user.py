"""Data that come user by user, as the examples of all users."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from driftless.data.examples import Examples
from driftless.errors import InputError

Array: TypeAlias = npt.NDArray[Any]
UserRows: TypeAlias = Iterable[tuple[str, Array, Array]]  # (user, inputs, targets)

TEST_SHARE = 0.2


@dataclass(frozen=True)
class UserExamples:
    """The training or the test examples; those of one user are consecutive."""

    inputs: Tensor
    targets: Tensor
    users: list[str]  # of each example


def concatenate_users(rows: UserRows) -> UserExamples | None:
    """Users without examples are left out; None if no user has any."""
    kept = [row for row in rows if len(row[1])]
    if not kept:
        return None
    inputs = torch.from_numpy(np.concatenate([inputs for _, inputs, _ in kept]))
    targets = torch.from_numpy(np.concatenate([targets for _, _, targets in kept]))
    return UserExamples(inputs, targets, repeat_names([user for user, _, _ in kept], [len(x) for _, x, _ in kept]))


def repeat_names(names: Iterable[str], counts: Iterable[int]) -> list[str]:
    return [name for name, count in zip(names, counts, strict=True) for _ in range(count)]


def test_size(n: int) -> int:
    """How many of a user's n examples or characters, the last in time, are for the test: a fifth, rounded down."""
    return int(n * TEST_SHARE)


def as_examples(
    train: UserExamples | None, test: UserExamples | None, classes: int, source: str, if_empty: str
) -> Examples:
    """`if_empty` is the error message if no user has training examples."""
    if train is None:
        raise InputError(if_empty)
    return Examples(
        train.inputs,
        train.targets,
        source,
        test=(test.inputs, test.targets) if test else None,
        classes=classes,
        users=train.users,
        test_users=test.users if test else None,
    )
