"""The data sets by name. A new one is a module with a `load` and one line here."""

from __future__ import annotations

from driftless.data.datasets import digits, linear_regression, quadratics
from driftless.data.datasets.source import DataSource, Examples

DATASETS: dict[str, DataSource] = {
    "digits": DataSource(digits.load, "1,797 handwritten digits, 8x8 pixels, 10 classes; shipped with the package"),
    "quadratics": DataSource(quadratics.load, "quadratic client objectives with a known optimum, for theory"),
    "linear-regression": DataSource(linear_regression.load, "synthetic linear regression with a known optimum"),
}

__all__ = ["DATASETS", "DataSource", "Examples"]
