"""What a data set is to the rest of the package."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from driftless.data.federation import Federation
from driftless.data.tensors import Ints


@dataclass(frozen=True)
class Examples:
    """Examples that have no clients yet: a partition makes a federation of them."""

    inputs: Tensor
    targets: Tensor
    source: str  # where the data come from, whose they are and under which licence
    test: tuple[Tensor, Tensor] | None = None
    classes: int | None = None  # None: regression
    coarse: Ints | None = None  # the coarse label of each example
    users: Sequence[Hashable] | None = None  # the user of each example
    test_users: Sequence[Hashable] | None = None  # the user of each test example


@dataclass(frozen=True)
class DataSource:
    """`load(**options)` gives Examples, or the Federation itself where the clients are part of the problem."""

    load: Callable[..., Examples] | Callable[..., Federation]
    summary: str
    provides: tuple[Literal["users", "coarse"], ...] = ()  # declared, so that a partition is checked before a download
    is_here: Callable[[], bool] | None = None  # None: it needs no files
    download: str = ""  # how much is downloaded if it is not here; "": it cannot be downloaded

    @property
    def files(self) -> str:
        """Where its files are, in a few words."""
        if self.is_here is None:
            return "included"
        return "here" if self.is_here() else f"downloads {self.download}" if self.download else "not here"

    @property
    def has_clients(self) -> bool:
        """Such a source takes the number of clients and the seed itself, and no partition."""
        return "clients" in inspect.signature(self.load).parameters

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """What the user may set besides `clients` and `seed`."""
        parameters = inspect.signature(self.load).parameters
        return {name: parameter for name, parameter in parameters.items() if name not in ("clients", "seed")}
