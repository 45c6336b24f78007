"""A hash of all data of a federation."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from driftless.data.array_checks import pieces
from driftless.data.inputs import Inputs, named_inputs

if TYPE_CHECKING:
    from driftless.data.federation import Federation


def fingerprint(federation: Federation, dtype: torch.dtype | None = None) -> str:
    """SHA-256 of the values with their types and shapes; names of the federation and of its clients do not matter.

    `dtype`: of the data as floats of this type. Every value is read, also of a file that is mapped to memory.
    """
    total = hashlib.sha256()
    _add(total, "train", federation, dtype)
    return total.hexdigest()


def _add(total: Any, what: str, federation: Federation | None, dtype: torch.dtype | None) -> None:
    if federation is None:
        return
    total.update(f"{what}: classes {federation.classes}".encode())
    _add_pair(total, federation.inputs, federation.targets, dtype)
    _add_tensor(total, "offsets", torch.tensor(federation.offsets))
    if federation.test is not None:
        total.update(b"test")
        _add_pair(total, *federation.test, dtype)
    _add(total, "validation", federation.validation, dtype)
    _add(total, "client_test", federation.client_test, dtype)
    total.update(b"end")


def _add_pair(total: Any, inputs: Inputs, targets: Tensor, dtype: torch.dtype | None) -> None:
    total.update(type(inputs).__name__.encode())
    for name, part in sorted(named_inputs(inputs).items()):
        _add_tensor(total, f"input {name}", part, dtype)
    _add_tensor(total, "targets", targets, dtype)


def _add_tensor(total: Any, name: str, values: Tensor, dtype: torch.dtype | None = None) -> None:
    """Piece by piece: copied are only those that are not contiguous, or of another type."""
    dtype = dtype if dtype and values.is_floating_point() else values.dtype
    total.update(f"{name} {dtype} {list(values.shape)}".encode())
    if len(values) and values.stride(0) == 0:  # one row, expanded: read once, however often it is there
        values = values[:1].clone(memory_format=torch.contiguous_format)
    for piece in pieces(values.detach()):
        total.update(piece.to(dtype).contiguous().view(-1).view(torch.uint8).numpy())
