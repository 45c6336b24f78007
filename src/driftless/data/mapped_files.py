"""Arrays in files that are mapped to memory: a row is read when it is used, and nothing is ever written to the file."""

from __future__ import annotations

import json
import math
import mmap
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from driftless.errors import InputError

NO_RESERVE = 0x4000 if sys.platform == "linux" else 0
"""mmap.MAP_NORESERVE of Python 3.13: the file may be larger than the memory."""
TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


def map_file(path: str | os.PathLike[str]) -> Tensor | dict[str, Tensor]:
    """Map the arrays of a file to memory, without reading them: data that do not fit into memory (docs/scale.md).

    Args:
        path: A `.npy` file, or a `.safetensors` file.

    Returns:
        The array of a `.npy` file, the arrays of a `.safetensors` file by their names. What is written to them does not
        reach the file.

    Examples:
        >>> import numpy
        >>> from driftless.data import map_file
        >>> numpy.save("inputs.npy", numpy.zeros((5, 3), dtype=numpy.float32))
        >>> map_file("inputs.npy").shape
        torch.Size([5, 3])
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"there is no file '{file}'; give a .npy or .safetensors file.")
    if file.suffix == ".npy":
        return _map_npy(file)
    if file.suffix == ".safetensors":
        return _map_safetensors(file)
    raise InputError(f"'{file}' cannot be mapped to memory; save the array as .npy (numpy.save) or .safetensors.")


def _map_npy(file: Path) -> Tensor:
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"'{file}' cannot be mapped to memory: {error}; save it anew with numpy.save.") from None
    tensor = as_mapped(array)
    if tensor is None:
        raise InputError(
            f"'{file}' is an array of {array.dtype} of shape {list(array.shape)} that cannot be mapped to memory; save "
            "it with numpy.save(path, numpy.ascontiguousarray(array)) as numbers of this machine's byte order."
        )
    return tensor


def _map_safetensors(file: Path) -> dict[str, Tensor]:
    try:
        with safe_open(file, framework="np"):  # checks the header
            pass
    except SafetensorError as error:
        raise InputError(f"'{file}' cannot be read: {error}; save it anew with safetensors.") from None
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header: dict[str, Any] = json.loads(opened.read(length))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if entry["dtype"] not in TYPES:
            raise InputError(f"'{name}' of '{file}' has the type {entry['dtype']}; use one of {', '.join(TYPES)}.")
    return {
        name: _tensor_at(file, TYPES[entry["dtype"]], 8 + length + entry["data_offsets"][0], entry["shape"])
        for name, entry in header.items()
    }


def as_mapped(array: npt.NDArray[Any]) -> Tensor | None:
    """A numpy.memmap, such as numpy.load(..., mmap_mode="r"), as a tensor over its file; None if that cannot be.

    The file is mapped anew, because torch must not write to memory that is read-only, and may be asked to.
    """
    own = getattr(array, "_mmap", None)
    path = getattr(array, "filename", None)
    if not isinstance(array, np.memmap) or own is None or path is None or not array.flags.c_contiguous:
        return None
    try:
        dtype = torch.from_numpy(np.empty(0, dtype=array.dtype)).dtype
    except (TypeError, ValueError):  # of another byte order, or no numbers
        return None
    # a slice has the offset of the whole, so where it begins is told by its address
    begin = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    offset = begin + array.ctypes.data - np.frombuffer(own, dtype=np.uint8).ctypes.data
    return _tensor_at(Path(path), dtype, offset, array.shape) if array.size and os.path.exists(path) else None


def _tensor_at(file: Path, dtype: torch.dtype, offset: int, shape: tuple[int, ...] | list[int]) -> Tensor:
    """What is written to the tensor goes to a private copy of the page."""
    number = math.prod(shape)
    if number == 0:
        return torch.empty(*shape, dtype=dtype)
    with file.open("rb") as opened:
        mapped = mmap.mmap(
            opened.fileno(), 0, flags=mmap.MAP_PRIVATE | NO_RESERVE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )
    return torch.frombuffer(mapped, dtype=dtype, count=number, offset=offset).view(*shape)
