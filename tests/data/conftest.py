from __future__ import annotations

from pathlib import Path

import pytest

from driftless.data import fetch


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folders data, system and cache of this test alone; what the machine has is not seen."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("DRIFTLESS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DRIFTLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DRIFTLESS_OFFLINE", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(fetch, "SYSTEM", tmp_path / "system")
    return tmp_path
