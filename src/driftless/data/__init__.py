"""The data: federations, partitions, cohorts and data sets."""

from __future__ import annotations

from driftless.data.cohorts import Constant, Cyclic, Doubling, Explicit, FromFunction, Schedule, as_schedule
from driftless.data.datasets import DATASETS, DataSource
from driftless.data.datasets.linear_regression import optimum
from driftless.data.examples import Examples
from driftless.data.federation import Federation
from driftless.data.held_out import hold_out
from driftless.data.load import load
from driftless.data.mapped_files import map_file
from driftless.data.partition import PARTITIONS, Partition

__all__ = [
    "Federation",
    "load",
    "map_file",
    "hold_out",
    "optimum",
    "as_schedule",
    "Schedule",
    "Constant",
    "Doubling",
    "Cyclic",
    "Explicit",
    "FromFunction",
    "DATASETS",
    "DataSource",
    "Examples",
    "PARTITIONS",
    "Partition",
]
