"""A hash of all data of a federation."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from driftless.data.inputs import Inputs, named_inputs

if TYPE_CHECKING:
    from driftless.data.federation import Federation


def fingerprint(federation: Federation) -> str:
    """SHA-256 of the values with their types and shapes; names of the federation and of its clients do not matter."""
    total = hashlib.sha256()
    _add(total, "train", federation)
    return total.hexdigest()


def _add(total: Any, what: str, federation: Federation | None) -> None:
    if federation is None:
        return
    total.update(f"{what}: classes {federation.classes}".encode())
    _add_pair(total, federation.inputs, federation.targets)
    _add_tensor(total, "offsets", torch.tensor(federation.offsets))
    if federation.test is not None:
        total.update(b"test")
        _add_pair(total, *federation.test)
    _add(total, "validation", federation.validation)
    _add(total, "client_test", federation.client_test)
    total.update(b"end")


def _add_pair(total: Any, inputs: Inputs, targets: Tensor) -> None:
    total.update(type(inputs).__name__.encode())
    for name, part in sorted(named_inputs(inputs).items()):
        _add_tensor(total, f"input {name}", part)
    _add_tensor(total, "targets", targets)


def _add_tensor(total: Any, name: str, values: Tensor) -> None:
    """The tensor's own memory is read; only one that is not contiguous is copied."""
    total.update(f"{name} {values.dtype} {list(values.shape)}".encode())
    total.update(values.detach().contiguous().view(-1).view(torch.uint8).numpy())
