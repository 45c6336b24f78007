"""The content of a data set before it is divided among clients."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from torch import Tensor

from driftless.data.array_checks import Ints
from driftless.data.inputs import Inputs
from driftless.errors import InputError


@dataclass(frozen=True)
class Examples:
    """Training and test examples without clients; a partition makes a federation of them.

    A function that is given as `data=FILE.py:NAME` may return one.

    Attributes:
        inputs: A tensor [n, ...], or a tuple or a dict of such tensors.
        targets: A tensor [n, ...]: int64 labels, or floats for regression.
        test: Inputs and targets of the test set; None: there is none.
        classes: The number of classes; None: regression.
        coarse: The coarse label of each example, for the partition "pachinko".
        users: The user of each example, for the partition "natural".
        test_users: The user of each test example.

    Examples:
        >>> import torch
        >>> from driftless import Examples
        >>> examples = Examples(torch.randn(6, 4), torch.tensor([0, 1, 0, 1, 0, 1]), classes=2, users=list("aabbcc"))
        >>> len(examples.targets), examples.users[0]
        (6, 'a')
    """

    inputs: Inputs
    targets: Tensor
    test: tuple[Inputs, Tensor] | None = None
    classes: int | None = None
    coarse: Ints | None = None
    users: Sequence[Hashable] | None = None
    test_users: Sequence[Hashable] | None = None


@dataclass(frozen=True)
class UserExamples:
    """The training or the test examples; those of one user are consecutive."""

    inputs: Tensor
    targets: Tensor
    users: list[str]  # of each example


def test_size(n: int) -> int:
    """How many of a user's n examples or characters, the last in time, are for the test: a fifth, rounded down."""
    return n // 5


def as_examples(train: UserExamples | None, test: UserExamples | None, classes: int, if_empty: str) -> Examples:
    """`if_empty` is the error message if no user has training examples."""
    if train is None:
        raise InputError(if_empty)
    test_pair, test_users = ((test.inputs, test.targets), test.users) if test else (None, None)
    return Examples(train.inputs, train.targets, test_pair, classes=classes, users=train.users, test_users=test_users)
