"""The data sets by name. A new one is a module with a `load` and one line here."""

from __future__ import annotations

from driftless.data.datasets import (
    cifar,
    digits,
    emnist,
    fashion_mnist,
    federated_csv,
    femnist,
    linear_regression,
    mnist,
    quadratics,
    sent140,
    shakespeare,
    stackoverflow,
)
from driftless.data.datasets.source import DataSource, Examples

DATASETS: dict[str, DataSource] = {
    "digits": DataSource(digits.load, "1,797 handwritten digits, 8x8 pixels, 10 classes; shipped with the package"),
    "mnist": DataSource(
        mnist.load, "70,000 handwritten digits, 28x28, 10 classes", is_here=mnist.is_here, download="12 MB"
    ),
    "fashion-mnist": DataSource(
        fashion_mnist.load,
        "70,000 pictures of clothes, 28x28, 10 classes",
        is_here=fashion_mnist.is_here,
        download="31 MB",
    ),
    "emnist-letters": DataSource(
        emnist.load_letters,
        "145,600 handwritten letters, 28x28, 26 classes",
        is_here=emnist.is_here,
        download="562 MB",
    ),
    "emnist-l": DataSource(
        emnist.load_l, "the first ten letters of emnist-letters, 56,000", is_here=emnist.is_here, download="562 MB"
    ),
    "cifar10": DataSource(
        cifar.load_cifar10,
        "60,000 colour photographs, 32x32, 10 classes",
        is_here=cifar.cifar10_is_here,
        download="170 MB",
    ),
    "cifar100": DataSource(
        cifar.load_cifar100,
        "60,000 colour photographs, 32x32, 100 classes in 20 coarse ones",
        provides=("coarse",),
        is_here=cifar.cifar100_is_here,
        download="169 MB",
    ),
    "quadratics": DataSource(quadratics.load, "quadratic client objectives with a known optimum, for theory"),
    "linear-regression": DataSource(linear_regression.load, "synthetic linear regression with a known optimum"),
    "femnist": DataSource(
        femnist.load,
        "handwritten digits and letters by writer, 28x28, 62 classes",
        provides=("users",),
        is_here=femnist.is_here,
        download="171 MB",
    ),
    "shakespeare": DataSource(
        shakespeare.load,
        "next character of Shakespeare's plays, by role",
        provides=("users",),
        is_here=shakespeare.is_here,
        download="1.3 MB",
    ),
    "sent140": DataSource(
        sent140.load,
        "positive and negative tweets by account, as bags of words",
        provides=("users",),
        is_here=sent140.is_here,
    ),
    "stackoverflow": DataSource(
        stackoverflow.load,
        "next word of Stack Overflow's posts, by user",
        provides=("users",),
        is_here=stackoverflow.PUBLISHED.are_here,
    ),
    "chitchat": DataSource(
        stackoverflow.load_chitchat,
        "student chat messages by user; a small stand-in for stackoverflow",
        provides=("users",),
        is_here=stackoverflow.chitchat_is_here,
    ),
    "gldv2": DataSource(
        federated_csv.load_gldv2,
        "photographs of landmarks by user, 2,028 classes",
        provides=("users",),
        is_here=federated_csv.gldv2_is_here,
    ),
    "inaturalist": DataSource(
        federated_csv.load_inaturalist,
        "photographs of plants and animals by user, 1,203 classes",
        provides=("users",),
        is_here=federated_csv.inaturalist_is_here,
    ),
}

__all__ = ["DATASETS", "DataSource", "Examples"]
