"""The data sets by name. A new one is a module with a function `load` and an entry in DATASETS."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from driftless.data.datasets import (
    chitchat,
    cifar10,
    cifar100,
    digits,
    emnist,
    femnist,
    linear_regression,
    photographs,
    quadratics,
    sent140,
    shakespeare,
    stackoverflow,
)
from driftless.data.datasets.mnist import FASHION_MNIST, MNIST
from driftless.data.examples import Examples
from driftless.data.federation import Federation


@dataclass(frozen=True)
class DataSource:
    """An entry of `DATASETS`: a data set that has a name.

    Attributes:
        load: `load(**options)` returns Examples, or a Federation where the clients are part of the problem.
        summary: One line for `driftless list datasets`.
        is_here: Whether its files are found; None: it needs no files.
        download: The size of the download if the files are not found; "": it cannot be downloaded.
        provides: "users", "coarse" or both, so that a partition is checked before a download.

    Examples:
        >>> from driftless.data import DATASETS
        >>> DATASETS["digits"].files, DATASETS["digits"].has_clients
        ('included', False)
        >>> list(DATASETS["quadratics"].options)
        [...]
    """

    load: Callable[..., Examples] | Callable[..., Federation]
    summary: str
    is_here: Callable[[], bool] | None = None
    download: str = ""
    provides: tuple[Literal["users", "coarse"], ...] = ()

    @property
    def files(self) -> str:
        """Where its files are: "included", "here", "downloads ..." or "not here"."""
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


DATASETS: dict[str, DataSource] = {
    "digits": DataSource(digits.load, "1,797 handwritten digits, 8x8 pixels, 10 classes; shipped with the package"),
    "mnist": DataSource(MNIST.load, "70,000 handwritten digits, 28x28, 10 classes", MNIST.is_here, download="12 MB"),
    "fashion-mnist": DataSource(
        FASHION_MNIST.load, "70,000 pictures of clothes, 28x28, 10 classes", FASHION_MNIST.is_here, download="31 MB"
    ),
    "emnist-letters": DataSource(
        emnist.load_letters, "145,600 handwritten letters, 28x28, 26 classes", emnist.is_here, download="562 MB"
    ),
    "emnist-l": DataSource(
        emnist.load_l, "the first ten letters of emnist-letters, 56,000", emnist.is_here, download="562 MB"
    ),
    "cifar10": DataSource(
        cifar10.load, "60,000 colour photographs, 32x32, 10 classes", cifar10.is_here, download="170 MB"
    ),
    "cifar100": DataSource(
        cifar100.load,
        "60,000 colour photographs, 32x32, 100 classes in 20 coarse ones",
        cifar100.is_here,
        download="169 MB",
        provides=("coarse",),
    ),
    "quadratics": DataSource(quadratics.load, "quadratic client objectives with a known optimum, for theory"),
    "linear-regression": DataSource(linear_regression.load, "synthetic linear regression with a known optimum"),
    "femnist": DataSource(
        femnist.load,
        "handwritten digits and letters by writer, 28x28, 62 classes",
        femnist.is_here,
        download="171 MB",
        provides=("users",),
    ),
    "shakespeare": DataSource(
        shakespeare.load,
        "next character of Shakespeare's plays, by role",
        shakespeare.is_here,
        download="1.3 MB",
        provides=("users",),
    ),
    "sent140": DataSource(
        sent140.load, "positive and negative tweets by account, as bags of words", sent140.is_here, provides=("users",)
    ),
    "stackoverflow": DataSource(
        stackoverflow.load, "next word of Stack Overflow's posts, by user", stackoverflow.is_here, provides=("users",)
    ),
    "chitchat": DataSource(
        chitchat.load,
        "student chat messages by user; a small stand-in for stackoverflow",
        chitchat.is_here,
        provides=("users",),
    ),
    "gldv2": DataSource(
        photographs.load_gldv2,
        "photographs of landmarks by user, 2,028 classes",
        photographs.GLDV2.is_here,
        provides=("users",),
    ),
    "inaturalist": DataSource(
        photographs.load_inaturalist,
        "photographs of plants and animals by user, 1,203 classes",
        photographs.INATURALIST.is_here,
        provides=("users",),
    ),
}
"""The data sets by the names that `load` and the command line use."""
