"""Trees of tensors as ArrayRecords of Flower, by the names of their fields, and back after a check.

What a record must hold is known before it is read: names, shapes, dtypes and so the exact number of bytes. The bytes of
an array must begin with the header that NumPy writes for this shape and dtype, so that no header from the network
decides what is allocated, and nothing is ever unpickled.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from torch import Tensor

from driftless.deploy.refusal import Refused
from driftless.engine.tree import Tree, named_leaves, with_leaves

NUMPY = "numpy.ndarray"
"""Flower's name for arrays in NumPy's file format."""
MOST_NAMES = 5
"""Shown in a refusal."""


def packed(tree: Tree) -> ArrayRecord:
    return ArrayRecord({name: as_array(leaf) for name, leaf in named_leaves(tree)})


def as_array(values: Tensor) -> Array:
    found = values.detach().cpu().contiguous().numpy()
    return Array(str(found.dtype), tuple(found.shape), NUMPY, header(found.dtype, found.shape) + found.tobytes())


def unpacked(record: object, like: Tree, what: str) -> Tree:
    """The tree in a record that was received; `like` has its names, shapes and dtypes, `what` names it in refusals."""
    if not isinstance(record, ArrayRecord):
        raise Refused(f"{what} is missing")
    wanted = dict(named_leaves(like))
    if set(record) != set(wanted):
        unknown, missing = sorted(set(record) - set(wanted)), sorted(set(wanted) - set(record))
        raise Refused(f"{what} has " + " and ".join(filter(None, [named("unknown", unknown), named("no", missing)])))
    for name, leaf in wanted.items():
        check_array(record[name], leaf, f"{name} of {what}")
    return with_leaves(like, [as_tensor(record[name], leaf) for name, leaf in wanted.items()])


def check_array(array: Array, like: Tensor, name: str) -> None:
    dtype, shape = numpy_dtype(like), tuple(like.shape)
    if array.dtype != str(dtype):
        raise Refused(f"{name} has the dtype {short(array.dtype)} instead of {dtype}")
    if tuple(array.shape) != shape:
        raise Refused(f"{name} has the shape {short(list(array.shape))} instead of {list(shape)}")
    start = header(dtype, shape)
    if array.stype != NUMPY or not array.data.startswith(start):
        raise Refused(f"{name} is not an array in NumPy's format with this shape and dtype")
    if len(array.data) != len(start) + like.numel() * dtype.itemsize:
        raise Refused(f"{name} has {len(array.data)} bytes instead of {len(start) + like.numel() * dtype.itemsize}")


def as_tensor(array: Array, like: Tensor) -> Tensor:
    dtype, shape = numpy_dtype(like), tuple(like.shape)
    values = np.frombuffer(array.data, dtype, offset=len(header(dtype, shape))).reshape(shape)
    return torch.from_numpy(values.copy())  # the bytes of a message cannot be written to


def header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """What NumPy writes before the values."""
    start = BytesIO()
    np.lib.format.write_array_header_1_0(start, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return start.getvalue()


def numpy_dtype(values: Tensor) -> np.dtype:
    return torch.empty(0, dtype=values.dtype, device="cpu").numpy().dtype


def named(how: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{how} field{'s' if len(names) > 1 else ''} {', '.join(map(short, names[:MOST_NAMES]))}{more}"


def short(value: object, most: int = 60) -> str:
    """Text from the network, fit for one line of an event."""
    try:
        text = str(value)
    except (ValueError, RecursionError):  # of an integer with thousands of digits, of lists within lists
        text = f"a value of type {type(value).__name__} that is too large to show"
    text = "".join(c if c.isprintable() else "?" for c in text[: 2 * most])
    return text if len(text) <= most else f"{text[: most - 3]}..."
