"""A cache of decoded arrays: images that take seconds to decode are stored as .npy files and mapped the next time."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from driftless.data.fetch import cache_folder

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

VERSION = 1
"""Increase it when a decoder returns different arrays than before."""


def cached_arrays(dataset: str, sources: Sequence[Path], decode: Callable[[], Arrays]) -> Arrays:
    """The result of `decode`; from the cache, read-only, if it was stored and the source files have not changed."""
    folder = cache_folder() / dataset / f"decoded-{_key(sources)}"
    try:
        return _read(folder)
    except (OSError, ValueError):  # absent or damaged
        arrays = decode()
        with contextlib.suppress(OSError):  # without a writable cache the arrays are decoded each time
            _write(folder, arrays)
        return arrays


def _key(sources: Sequence[Path]) -> str:
    parts = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in sources]
    return hashlib.sha256("\n".join([str(VERSION), *parts]).encode()).hexdigest()[:16]


def _read(folder: Path) -> Arrays:
    return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in folder.iterdir()}


def _write(folder: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Written to a temporary folder that is then renamed, so that a reader sees all arrays or none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as temporary:
        complete = Path(temporary, folder.name)
        complete.mkdir()
        for name, values in arrays.items():
            np.save(complete / f"{name}.npy", values, allow_pickle=False)
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one
        complete.rename(folder)
