"""Disks so small that tests can fill them."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, size: str) -> Generator[Path]:
    """A disk of this size at a new folder; skips the test where nothing can be mounted."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)
