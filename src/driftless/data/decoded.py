"""Arrays that take seconds to decode, kept in the cache folder so that they are decoded once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from driftless.data.fetch import cache_folder

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

FORM = 1
"""Raise it when a reader gives other arrays than before."""


def arrays(dataset: str, sources: Sequence[Path], decode: Callable[[], Arrays]) -> Arrays:
    """What `decode` makes of these files, from the cache if they have not changed; read-only then, and mapped."""
    folder = cache_folder() / dataset / f"decoded-{_key(sources)}"
    try:
        return _read(folder)
    except (OSError, ValueError):  # not there, or spoilt
        made = decode()
        with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
            _write(folder, made)
        return made


def _key(sources: Sequence[Path]) -> str:
    parts = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in sources]
    return hashlib.sha256("\n".join([str(FORM), *parts]).encode()).hexdigest()[:16]


def _read(folder: Path) -> Arrays:
    files = sorted(folder.iterdir())
    return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in files}


def _write(folder: Path, content: Mapping[str, npt.NDArray[Any]]) -> None:
    """All arrays appear at once, by the renaming of their folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, values in content.items():
            np.save(temporary / f"{name}.npy", values, allow_pickle=False)
        os.chmod(temporary, 0o755)  # mkdtemp's folders are for the owner alone, and a cache may be shared
        shutil.rmtree(folder, ignore_errors=True)  # if it is there, it could not be read
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
