"""Conversion of a user's arrays to tensors, and checks of their content.

Every check looks at the data of all clients at once and searches for the client only if it fails, so that a million
examples cost one pass over the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from driftless.data.inputs import Inputs, named_inputs
from driftless.data.mapped_files import as_mapped
from driftless.errors import InputError, short_repr

Ints: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = Tensor | npt.ArrayLike
SeveralValues: TypeAlias = Values | tuple[Values, ...] | Mapping[str, Values]
"""What `as_inputs` takes."""

# Other dtypes are converted: torch supports too few operations on them. Floats of any kind become those of the run
# batch by batch (inputs.cast_floats), so that data in half precision take half the memory.
_HALF = (torch.float16, torch.bfloat16)
_KEPT = (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8)
PIECE = 2**24
"""Values that are looked at together where a check needs memory."""


def as_inputs(values: SeveralValues, owner: str) -> Inputs:
    """One tensor, or several: a dict of arrays, or a tuple of arrays (a list, or a tuple of numbers, are rows).

    Floats stay floats, integers stay integers (token ids); `owner` names the data in an error.
    """
    if isinstance(values, Mapping):
        parts = {name: as_input(part, f"the values of input '{name}' of {owner}") for name, part in values.items()}
        if not parts or not all(isinstance(name, str) for name in parts):
            raise InputError(
                f"the inputs of {owner} are a dict with the keys {list(parts)}; give the arguments of the model's "
                "forward by their names, at least one."
            )
        return parts
    if isinstance(values, tuple) and all(isinstance(part, (Tensor, np.ndarray)) and part.ndim for part in values):
        if not values:
            raise InputError(f"the inputs of {owner} are an empty tuple; give at least one tensor.")
        return tuple(as_input(part, f"the values of input {i} of {owner}") for i, part in enumerate(values))
    tensor = as_input(values, f"the inputs of {owner}")  # pyright: ignore[reportArgumentType]
    return tensor.to(torch.float32) if tensor.dtype == torch.bool else tensor


def as_input(values: Values, what: str) -> Tensor:
    """One of several inputs: a mask stays a mask."""
    tensor = _as_tensor(values, what)
    if tensor.dtype in (*_KEPT, *_HALF, torch.bool):
        return tensor
    return tensor.to(torch.float32 if tensor.is_floating_point() else torch.int64)


def as_targets(values: Values, owner: str) -> Tensor:
    """Integers become int64 labels, floats stay floats (regression)."""
    tensor = _as_tensor(values, f"the targets of {owner}")
    if not tensor.is_floating_point():
        return tensor.to(torch.int64)
    return tensor if tensor.dtype in _KEPT else tensor.to(torch.float32)


def full_precision(dtype: torch.dtype) -> torch.dtype:
    """float32 for a type of half precision, else the type itself."""
    return torch.float32 if dtype in _HALF else dtype


def _as_tensor(values: Values, what: str) -> Tensor:
    tensor = values.detach() if isinstance(values, Tensor) else _from_array(values, what)
    if tensor.is_complex():
        raise InputError(f"{what} are complex numbers ({tensor.dtype}); give real numbers or integers.")
    if tensor.ndim == 0:
        raise InputError(f"{what} are a single number; give one row per example, shape [examples, ...].")
    return tensor


def _from_array(values: npt.ArrayLike, what: str) -> Tensor:
    try:
        if isinstance(values, list) and values and all(isinstance(row, Tensor) for row in values):
            return torch.stack(values)
        if isinstance(values, np.memmap) and (mapped := as_mapped(values)) is not None:
            return mapped
        array = np.asarray(values)
    except (ValueError, RuntimeError) as error:
        raise InputError(f"{what} do not form an array ({error}); {EQUAL_ROWS}.") from error
    if array.dtype.kind not in "fiubc":
        raise InputError(f"{what} have the type {array.dtype}; {_remedy(array)}.")
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)
    # torch refuses foreign byte orders and negative strides, and warns about read-only memory
    array = np.require(array, dtype=array.dtype.newbyteorder("="), requirements=["C", "W"])
    return torch.from_numpy(array)


EQUAL_ROWS = "give rows of equal shape: pad the shorter ones, and give the model a mask as a second input"


def _remedy(array: npt.NDArray[Any]) -> str:
    """What to do about an array that is not of numbers."""
    row = next(iter(array.flat), None)
    if isinstance(row, (str, bytes)):
        return (
            "give numbers: text needs a tokenizer, labels a number for each class (Federation.from_dataset does that)"
        )
    if isinstance(row, (list, tuple, np.ndarray)):
        return EQUAL_ROWS
    return "give numbers (floats or integers), and none that is missing"


def check_pair(inputs: Inputs, targets: Tensor, owner: str) -> None:
    """One row in each input, and one target, for each example."""
    rows = {name: len(part) for name, part in named_inputs(inputs).items()}
    if len(set(rows.values())) > 1:
        numbers = ", ".join(f"{name}: {number}" for name, number in rows.items())
        raise InputError(
            f"the inputs of {owner} have different numbers of rows ({numbers}); give each one row for each example."
        )
    number = next(iter(rows.values()))
    if number != len(targets):
        raise InputError(f"{owner} has {number} inputs but {len(targets)} targets; give one target for each input.")


def check_alike_inputs(inputs: Inputs, model: Inputs, owner: str, other: str) -> None:
    """The same inputs, of the same shapes and kinds."""
    if type(inputs) is not type(model) or named_inputs(inputs).keys() != named_inputs(model).keys():
        raise InputError(
            f"the inputs of {owner} are {_kind(inputs)}, those of {other} {_kind(model)}; "
            "give the same inputs to all of them."
        )
    own = named_inputs(inputs)
    for name, part in named_inputs(model).items():
        what = f"the values of input '{name}'" if name else "the inputs"
        check_alike(own[name], part, f"{what} of {owner}", other)


def _kind(inputs: Inputs) -> str:
    if isinstance(inputs, Tensor):
        return "one tensor"
    return f"a dict of {', '.join(sorted(inputs))}" if isinstance(inputs, dict) else f"a tuple of {len(inputs)} tensors"


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


def check_finite_inputs(inputs: Inputs, offsets: Ints | None) -> None:
    for name, part in named_inputs(inputs).items():
        check_finite(part, f"input '{name}'" if name else "inputs", offsets)


def check_finite(values: Tensor, what: str, offsets: Ints | None) -> None:
    """`offsets` are the clients' row ranges, None for a test set."""
    if not values.is_floating_point() or values.numel() == 0:
        return
    # minimum and maximum propagate NaN and infinity, and unlike isfinite allocate no memory of the size of the data
    low, high = torch.aminmax(values)
    if torch.isfinite(low) and torch.isfinite(high):
        return
    owner, count, others = _locate(values, lambda piece: ~torch.isfinite(piece), offsets)
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
    owner, count, others = _locate(targets, lambda piece: (piece < 0) | (piece >= classes), offsets)
    raise InputError(
        f"{owner} has {count} labels outside 0..{classes - 1}{others} (the labels go from {low} to {high}); "
        f"number the classes from 0 or set classes (now {classes})."
    )


def pieces(values: Tensor) -> tuple[Tensor, ...]:
    """Parts of the rows, each of a size that may be copied."""
    return values.split(max(1, PIECE * len(values) // max(1, values.numel())))


def _locate(values: Tensor, is_bad: Callable[[Tensor], Tensor], offsets: Ints | None) -> tuple[str, int, str]:
    """The first client with bad values, how many it has, and a remark on how many other clients have some."""
    bad_in_row = torch.cat([is_bad(piece).reshape(len(piece), -1).sum(1) for piece in pieces(values)])
    before = np.concatenate([[0], np.cumsum(bad_in_row.cpu().numpy())])
    if offsets is None:
        return "the test set", int(before[-1]), ""
    per_client = np.diff(before[offsets])
    affected = np.flatnonzero(per_client)
    others = f", as have {len(affected) - 1} other clients" if len(affected) > 1 else ""
    return f"client {affected[0]}", int(per_client[affected[0]]), others


def as_assignment(
    values: Sequence[Hashable] | Ints | Tensor, clients: int | None, examples: int
) -> tuple[Ints, tuple[str, ...] | None]:
    """The client of each example, checked. Groups that are not client numbers are numbered, and their names returned.

    Without `clients`, every group is a client: integers in rising order, others in the order of their first appearance.
    """
    try:
        entries = len(values)
    except TypeError:  # a number, or an array of no dimension
        raise InputError(
            f"assignment is {short_repr(values)}; give the client of each of the {examples} examples."
        ) from None
    if entries != examples:
        raise InputError(f"assignment has {entries} entries for {examples} examples; give one client per example.")
    array = _as_array(values)
    if array is not None and array.dtype.kind == "f":
        raise InputError(
            f"assignment must be a one-dimensional array of integers, got {array.dtype} of shape {list(array.shape)}; "
            "give the client number of each example, or names of any other kind."
        )
    if array is None or array.ndim != 1 or array.dtype.kind not in "iu":
        owner, names = numbered(values, "assignment")
        if clients not in (None, len(names)):
            raise InputError(
                f"assignment has {len(names)} different groups, and clients={clients}; leave clients out, or give "
                "client numbers."
            )
        return owner, names
    if clients is None:
        groups, owner = np.unique(array, return_inverse=True)
        return owner, tuple(map(str, groups.tolist()))
    if len(array) and (array.min() < 0 or array.max() >= clients):
        raise InputError(
            f"assignment goes from {array.min()} to {array.max()}, but the {clients} clients are 0..{clients - 1}; "
            "renumber the clients or leave clients out."
        )
    return array.astype(np.int64, copy=False), None


def _as_array(values: Sequence[Hashable] | npt.NDArray[Any] | Tensor) -> npt.NDArray[Any] | None:
    try:
        return values.numpy() if isinstance(values, Tensor) else np.asarray(values)
    except ValueError:  # names that are tuples of different lengths
        return None


def numbered(groups: Iterable[Hashable] | Tensor, what: str) -> tuple[Ints, tuple[str, ...]]:
    """A number for each group in the order of first appearance, and the groups' names."""
    number: dict[Hashable, int] = {}
    items = groups.tolist() if isinstance(groups, (np.ndarray, Tensor)) else groups
    try:
        owner = np.array([number.setdefault(group, len(number)) for group in items], dtype=np.int64)
    except TypeError as error:
        raise InputError(f"{what} must be names or numbers, one per example ({error}).") from error
    if not number:
        raise InputError(f"{what} is empty; give one for each example.")
    if missing := [group for group in number if group is None or group != group]:
        raise InputError(f"{what} is missing ({missing[0]}) for some examples; leave these examples out.")
    return owner, tuple(map(str, number))
