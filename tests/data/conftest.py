from __future__ import annotations

import os
from pathlib import Path

import pytest

from driftless.data import fetch


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folders data, system and cache of this test alone; the machine's own files are not found."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("DRIFTLESS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DRIFTLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DRIFTLESS_OFFLINE", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(fetch, "SYSTEM", tmp_path / "system")
    return tmp_path


@pytest.fixture
def folder(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of data, empty; nothing is downloaded."""
    monkeypatch.setenv("DRIFTLESS_OFFLINE", "1")
    return folders / "data"


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the published files, if there is one: that of the user, or one beside the project."""
    data = Path(os.environ.get("DRIFTLESS_DATA") or Path(__file__).parents[3] / "shared" / "data")
    monkeypatch.setenv("DRIFTLESS_DATA", str(data))
    monkeypatch.setenv("DRIFTLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DRIFTLESS_OFFLINE", "1")
    return data
