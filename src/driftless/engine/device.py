"""Where a run computes: on which device, in which precision, and where its data are."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from driftless.data.federation import Federation
from driftless.data.inputs import Inputs, map_inputs, named_inputs
from driftless.errors import InputError, short_repr

PRECISIONS = (torch.float32, torch.bfloat16, torch.float64)
SHARE_FOR_DATA = 0.5
"""Of an accelerator's free memory; the rest is for models, activations and sums."""
CPU = torch.device("cpu")


def check_device(device: object) -> None:
    """Whether it is the name of a device; `as_device` says whether it is there."""
    try:
        known = device == "auto" or (isinstance(device, str) and torch.device(device).type != "meta")
    except RuntimeError:
        known = False
    if not known:
        raise InputError(f"device is {short_repr(device)}; it must be 'auto', 'cpu', 'cuda', 'cuda:1', 'mps' or alike.")


def as_device(name: str) -> torch.device:
    """The device of that name; "auto" is an accelerator if there is one. Processes of a launcher get one each."""
    check_device(name)
    there = torch.accelerator.current_accelerator(check_available=True)
    number = torch.accelerator.device_count() if there else 0
    if name == "auto":
        return CPU if there is None else torch.device(there.type, own_index(number))
    device = torch.device(name)
    if device.type == "cpu":
        return CPU
    found = f"{number} of type '{there.type}'" if there else "none"
    if there is None or device.type != there.type or (device.index or 0) >= number:
        raise InputError(
            f"device is '{name}', and torch finds no such accelerator here ({found}); use 'cpu' or 'auto', or a build "
            "of torch for it. A run goes on elsewhere with: driftless resume DIR --device cpu"
        )
    return device if ":" in name else torch.device(device.type, own_index(number))


def own_index(number: int) -> int:
    return int(os.environ.get("LOCAL_RANK", "0")) % number


def state_dtype(precision: torch.dtype) -> torch.dtype:
    """Of parameters, states and sums: bfloat16 is for forward and backward passes only."""
    return torch.float32 if precision == torch.bfloat16 else precision


def autocast(precision: torch.dtype, device: torch.device) -> AbstractContextManager[object]:
    """Around forward pass and loss. Casts are not remembered: the vector changes between two steps."""
    if precision != torch.bfloat16:
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)


def moved(values: Tensor, device: torch.device) -> Tensor:
    """On the device. From main memory it is copied while the device computes, which takes pinned memory."""
    if values.device == device:
        return values
    if values.device == CPU:
        return values.pin_memory(device).to(device, non_blocking=True)
    return values.to(device)


def moved_inputs(inputs: Inputs, device: torch.device) -> Inputs:
    return map_inputs(lambda part: moved(part, device), inputs)


def placed(federation: Federation, device: torch.device) -> tuple[Federation, tuple[str, ...]]:
    """The data on the device if they fit, else as they are; and the sentence that says so."""
    if device == CPU:
        return federation, ()
    needed = data_bytes(federation)
    free = torch.accelerator.get_memory_info(device)[0]
    size = f"{needed / 2**30:.2g} GB of data"
    if needed > SHARE_FOR_DATA * free:
        return federation, (
            f"{size} stay in main memory ({free / 2**30:.2g} GB are free on {device}): batches are copied",
        )
    return federation.map_tensors(lambda values: values.to(device)), (f"{size} are on {device}",)


def data_bytes(federation: Federation | None) -> int:
    if federation is None:
        return 0
    pairs = [(federation.inputs, federation.targets), *([federation.test] if federation.test else [])]
    tensors = [part for inputs, targets in pairs for part in (*named_inputs(inputs).values(), targets)]
    own = sum(part.numel() * part.element_size() for part in tensors)
    return own + data_bytes(federation.validation) + data_bytes(federation.client_test)
