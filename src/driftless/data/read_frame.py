"""Data frames of pandas as tensors: a row is an example. pandas itself is not imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from driftless.data.array_checks import as_targets
from driftless.data.constructors import advice, is_frame
from driftless.data.examples import Examples
from driftless.data.read_dataset import numbered_labels
from driftless.errors import InputError, unknown


def read_frame(
    frame: Any, client: str, target: str, inputs: Sequence[str] | None, test: Any, classes: int | None
) -> Examples:
    """All columns of numbers but the client's and the target's as a float32 matrix, or those named in `inputs`."""
    check_frame(frame, "the data")
    for column in (client, target):
        check_column(frame, column, "the data frame")
    columns = [column for column in frame.columns if column not in (client, target)] if inputs is None else [*inputs]
    if not columns:
        raise InputError("the data frame has no column left for the inputs; name at least one: inputs=['a', 'b'].")
    check_complete(frame[client], "the data frame")
    frames = {"the data frame": frame}
    if test is not None:
        check_frame(test, "test")
        frames["the test frame"] = test
    targets = numbered_labels([target_values(part, target, owner) for owner, part in frames.items()])
    pairs = [
        (matrix(part, columns, owner), as_targets(values, owner))
        for (owner, part), values in zip(frames.items(), targets, strict=True)
    ]
    users = frame[client].tolist()
    return Examples(*pairs[0], test=pairs[1] if test is not None else None, classes=classes, users=users)


def check_frame(given: Any, what: str) -> None:
    if not is_frame(given):
        raise InputError(f"{what} must be a data frame, got a {type(given).__name__}; {advice(given)}.")
    if len(given) == 0:
        raise InputError(f"{what} must have at least one row, got an empty data frame.")


def check_column(frame: Any, column: Any, owner: str) -> None:
    if column not in list(frame.columns):
        raise unknown(f"column of {owner}", str(column), map(str, frame.columns))


def check_complete(series: Any, owner: str) -> None:
    missing = int(series.isna().sum())
    if missing:
        raise InputError(
            f"column '{series.name}' of {owner} has {missing} missing values; fill them in (df.fillna) or leave these "
            "rows out (df.dropna)."
        )


def matrix(frame: Any, columns: Sequence[str], owner: str) -> Tensor:
    """float32 [rows, columns]."""
    result = np.empty((len(frame), len(columns)), dtype=np.float32)
    for i, column in enumerate(columns):
        check_column(frame, column, owner)
        series = frame[column]
        check_complete(series, owner)
        if getattr(series.dtype, "kind", "O") not in "fiub":
            raise InputError(
                f"column '{column}' of {owner} is {series.dtype}, not numbers; turn it into numbers (pd.get_dummies, "
                f".cat.codes) or leave it out: inputs={[other for other in columns if other != column][:3]}."
            )
        result[:, i] = series.to_numpy(dtype=np.float32)
    return torch.from_numpy(result)


def target_values(frame: Any, target: str, owner: str) -> Any:
    """Numbers as they are, anything else as text."""
    check_column(frame, target, owner)
    series = frame[target]
    check_complete(series, owner)
    kind = getattr(series.dtype, "kind", "O")
    numbers = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.int64}
    return series.to_numpy(dtype=numbers[kind]) if kind in numbers else np.asarray(series.astype(str), dtype=str)
