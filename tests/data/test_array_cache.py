from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftless.data.array_cache import Arrays, cached_arrays


def put(path: Path, content: bytes = b"content") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def decode_counted(calls: list[int]) -> Arrays:
    calls.append(1)
    return {"images": np.arange(12, dtype=np.uint8).reshape(3, 4), "labels": np.array([5, 6, 7])}


def test_arrays_are_decoded_once_until_their_source_changes(folders: Path):
    source, calls = put(folders / "data" / "picture"), []
    for expected in (1, 1):
        arrays = cached_arrays("set", [source], lambda: decode_counted(calls))
        assert {name: values.tolist() for name, values in arrays.items()} == {
            "images": [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]],
            "labels": [5, 6, 7],
        }
        assert len(calls) == expected
    put(source, b"changed")
    cached_arrays("set", [source], lambda: decode_counted(calls))
    assert len(calls) == 2


def test_a_spoilt_decoded_array_is_decoded_again(folders: Path):
    source, calls = put(folders / "data" / "picture"), []
    cached_arrays("set", [source], lambda: decode_counted(calls))
    (stored,) = (folders / "cache" / "set").rglob("images.npy")
    stored.write_bytes(stored.read_bytes()[:-5])
    for _ in range(2):
        assert cached_arrays("set", [source], lambda: decode_counted(calls))["images"].sum() == 66
    assert len(calls) == 2  # and the second time it is stored whole


def test_without_a_cache_that_can_be_written_arrays_are_decoded_each_time(
    folders: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DRIFTLESS_CACHE", str(put(folders / "occupied") / "cache"))
    source, calls = put(folders / "data" / "picture"), []
    for _ in range(2):
        assert cached_arrays("set", [source], lambda: decode_counted(calls))["labels"].tolist() == [5, 6, 7]
    assert len(calls) == 2
