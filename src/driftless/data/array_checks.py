"""Conversion of a user's arrays to tensors, and checks of their content.

Every check looks at the data of all clients at once and searches for the client only if it fails, so that a million
examples cost one pass over the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from driftless.errors import InputError

Ints: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = Tensor | npt.ArrayLike

# Other dtypes are converted: torch supports too few operations on them.
_KEPT_INPUTS = (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8)


def as_inputs(values: Values, owner: str) -> Tensor:
    """Floats stay floats, integers stay integers (token ids); `owner` names the data in an error."""
    tensor = _as_tensor(values, f"the inputs of {owner}")
    if tensor.dtype in _KEPT_INPUTS:
        return tensor
    is_integer = not tensor.is_floating_point() and tensor.dtype != torch.bool
    return tensor.to(torch.int64 if is_integer else torch.float32)


def as_targets(values: Values, owner: str) -> Tensor:
    """Integers become int64 labels, floats stay floats (regression)."""
    tensor = _as_tensor(values, f"the targets of {owner}")
    if not tensor.is_floating_point():
        return tensor.to(torch.int64)
    return tensor if tensor.dtype in _KEPT_INPUTS else tensor.to(torch.float32)


def _as_tensor(values: Values, what: str) -> Tensor:
    tensor = values.detach() if isinstance(values, Tensor) else _from_array(values, what)
    if tensor.is_complex():
        raise InputError(f"{what} are complex numbers ({tensor.dtype}); give real numbers or integers.")
    if tensor.ndim == 0:
        raise InputError(f"{what} are a single number; give one row per example, shape [examples, ...].")
    return tensor


def _from_array(values: npt.ArrayLike, what: str) -> Tensor:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{what} do not form an array ({error}); give rows of equal shape.") from error
    if array.dtype.kind not in "fiubc":
        raise InputError(f"{what} have the type {array.dtype}; give numbers (floats or integers).")
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)
    # torch refuses foreign byte orders and negative strides, and warns about read-only memory
    array = np.require(array, dtype=array.dtype.newbyteorder("="), requirements=["C", "W"])
    return torch.from_numpy(array)


def check_pair(inputs: Tensor, targets: Tensor, owner: str) -> None:
    if len(inputs) != len(targets):
        raise InputError(
            f"{owner} has {len(inputs)} inputs but {len(targets)} targets; give one target for each input."
        )


def check_alike(values: Tensor, model: Tensor, what: str, other: str) -> None:
    """The examples of `values` must have the shape and the kind (float or integer) of those of `model`."""
    if values.shape[1:] != model.shape[1:]:
        raise InputError(
            f"{what} have the shape {list(values.shape[1:])} per example, those of {other} {list(model.shape[1:])}; "
            "all examples of a federation need one shape: pad or resize them."
        )
    if values.is_floating_point() != model.is_floating_point():
        kinds = {True: "floats", False: "integers"}
        raise InputError(
            f"{what} are {kinds[values.is_floating_point()]}, those of {other} {kinds[model.is_floating_point()]}; "
            "convert them to one kind (integer targets are class labels, float targets are regression)."
        )


def check_finite(values: Tensor, what: str, offsets: Ints | None) -> None:
    """`offsets` are the clients' row ranges, None for a test set."""
    if not values.is_floating_point() or values.numel() == 0:
        return
    # minimum and maximum propagate NaN and infinity, and unlike isfinite allocate no memory of the size of the data
    low, high = torch.aminmax(values)
    if torch.isfinite(low) and torch.isfinite(high):
        return
    owner, count, others = _locate(~torch.isfinite(values), offsets)
    raise InputError(
        f"{owner} has {count} non-finite values (NaN or infinity) in its {what}{others}; "
        "remove these examples or replace the values."
    )


def check_labels(targets: Tensor, classes: int, offsets: Ints | None) -> None:
    if targets.numel() == 0:
        return
    low, high = (int(bound) for bound in torch.aminmax(targets))
    if low >= 0 and high < classes:
        return
    owner, count, others = _locate((targets < 0) | (targets >= classes), offsets)
    raise InputError(
        f"{owner} has {count} labels outside 0..{classes - 1}{others} (the labels go from {low} to {high}); "
        f"number the classes from 0 or set classes (now {classes})."
    )


def _locate(bad: Tensor, offsets: Ints | None) -> tuple[str, int, str]:
    """The first client with bad values, how many it has, and a remark on how many other clients have some."""
    bad_in_row = bad.reshape(len(bad), -1).sum(1)
    before = np.concatenate([[0], np.cumsum(bad_in_row.cpu().numpy())])
    if offsets is None:
        return "the test set", int(before[-1]), ""
    per_client = np.diff(before[offsets])
    affected = np.flatnonzero(per_client)
    others = f", as have {len(affected) - 1} other clients" if len(affected) > 1 else ""
    return f"client {affected[0]}", int(per_client[affected[0]]), others


def as_assignment(values: Sequence[int] | Ints | Tensor, clients: int, examples: int) -> Ints:
    """The client of each example, checked."""
    array = values.numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"assignment must be a one-dimensional array of integers, got {array.dtype} of shape {list(array.shape)}; "
            "give the client number of each example."
        )
    if len(array) != examples:
        raise InputError(f"assignment has {len(array)} entries for {examples} examples; give one client per example.")
    if len(array) and (array.min() < 0 or array.max() >= clients):
        raise InputError(
            f"assignment goes from {array.min()} to {array.max()}, but the {clients} clients are 0..{clients - 1}; "
            "renumber the clients or set clients."
        )
    return array.astype(np.int64, copy=False)
