"""Which way to make a federation fits what a user has given: advice for error messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset

ALL = "driftless.load, driftless.Federation.from_clients, from_dataset, from_assignment or from_frame"


def advice(given: Any) -> str:
    """`use driftless.Federation.from_frame(...)`, by the kind of what was given."""
    if isinstance(given, str):
        return f"for a data set of driftless use driftless.load({given!r}, ...)"
    if is_frame(given):
        return (
            "for a data frame use driftless.Federation.from_frame(df, client='user', target='y'), or, without a column "
            "of clients, Federation.from_dataset((df[inputs].to_numpy('float32'), df['y']), ...)"
        )
    if isinstance(given, DataLoader):
        return "a DataLoader only gives batches; use driftless.Federation.from_dataset(loader.dataset, ...)"
    if isinstance(given, IterableDataset) or not hasattr(given, "__len__"):
        if hasattr(given, "__iter__"):
            return "it can only be read in order; use driftless.Federation.from_dataset(list(data), ...)"
        return f"make a federation with {ALL}"
    if isinstance(given, Mapping):
        if any(hasattr(part, "column_names") for part in given.values()):
            splits = ", ".join(map(str, given))
            return f"give one of its parts ({splits}): driftless.Federation.from_dataset(parts['train'], ...)"
        return "for a dict of clients use driftless.Federation.from_clients, for a dict of columns from_dataset"
    if isinstance(given, Dataset) or hasattr(given, "column_names"):
        return "for one data set use driftless.Federation.from_dataset(data, 'dirichlet', clients=100, alpha=0.3)"
    if isinstance(given, tuple) and len(given) == 2:
        return (
            "for all inputs and targets use driftless.Federation.from_dataset((inputs, targets), ...), or "
            "from_assignment if you know the client of each example"
        )
    if isinstance(given, (list, tuple)):
        return (
            "for a list of clients use driftless.Federation.from_clients([(inputs, targets), ...]), for a list of "
            "examples from_dataset"
        )
    return f"make a federation with {ALL}"


def is_frame(given: Any) -> bool:
    """A data frame of pandas."""
    return hasattr(given, "columns") and hasattr(given, "iloc")
