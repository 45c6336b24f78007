"""A reader of pickles that hold bytes, numbers, lists, dictionaries and arrays of bytes, and nothing else.

A pickle can call any function while it is read. Here only replacements of the few functions that an array of bytes
needs can be called, so a malicious file is refused without running anything.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from driftless.data.formats.file_errors import unreadable
from driftless.errors import InputError


def loads(content: bytes, where: object) -> Any:
    """`where` names the file in errors. Strings written by Python 2 become bytes."""
    try:
        return _Restricted(content, where).load()
    except InputError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise unreadable(where, f"its pickle is damaged ({error})") from error


def _array(_: object, shape: object, kind: object) -> npt.NDArray[np.uint8]:
    """In place of numpy's _reconstruct: an empty array; the pickle then sets its state."""
    return np.ndarray.__new__(np.ndarray, (0,), np.uint8)


def _byte_type(kind: str | bytes, align: object = False, copy: object = True) -> np.dtype[np.uint8]:
    name = kind.decode("ascii") if isinstance(kind, bytes) else kind
    if name not in ("u1", "|u1"):
        raise ValueError(f"an array of {name!r} instead of bytes")
    return np.dtype("u1", False, True)  # a copy, because the pickle sets its state


def _bytes(text: str, encoding: str) -> bytes:
    """Python 3 pickles bytes this way for protocols of Python 2."""
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Callable[..., Any] | None] = {
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("numpy", "ndarray"): None,  # only named, as the first argument of _reconstruct
    ("numpy", "dtype"): _byte_type,
    ("_codecs", "encode"): _bytes,
}


class _Restricted(pickle.Unpickler):
    def __init__(self, content: bytes, where: object) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._where = where

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in _ALLOWED:
            raise InputError(
                f"{self._where} asks to run {module}.{name}, which data have no need for; nothing of it was run. "
                "Do not use this file: delete it and get it from the publisher."
            )
        return _ALLOWED[module, name]
