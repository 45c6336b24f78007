"""The data: federations, partitions, cohorts and data sets."""

from __future__ import annotations

from driftless.data.datasets import DATASETS, DataSource, Examples
from driftless.data.datasets.linear_regression import optimum
from driftless.data.federation import Federation, hold_out
from driftless.data.load import load
from driftless.data.partition import PARTITIONS, Partition
from driftless.data.sampling import Constant, Cyclic, Doubling, Explicit, Schedule, as_schedule

__all__ = [
    "Federation",
    "load",
    "hold_out",
    "optimum",
    "as_schedule",
    "Schedule",
    "Constant",
    "Doubling",
    "Cyclic",
    "Explicit",
    "DATASETS",
    "DataSource",
    "Examples",
    "PARTITIONS",
    "Partition",
]
