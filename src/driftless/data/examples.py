"""The content of a data set before it is divided among clients."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from torch import Tensor

from driftless.data.array_checks import Ints


@dataclass(frozen=True)
class Examples:
    """Training and test examples without clients; a partition makes a federation of them."""

    inputs: Tensor
    targets: Tensor
    source: str  # authors, year, address and licence
    test: tuple[Tensor, Tensor] | None = None
    classes: int | None = None  # None: regression
    coarse: Ints | None = None  # the coarse label of each example
    users: Sequence[Hashable] | None = None  # the user of each example
    test_users: Sequence[Hashable] | None = None  # the user of each test example
