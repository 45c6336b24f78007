from __future__ import annotations

from pathlib import Path

import pytest

from driftless.data import memory
from driftless.errors import InputError


def test_the_limit_of_a_container_counts_if_it_is_lower_than_the_machines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "_free_on_machine", lambda: 3 * 2**30)
    monkeypatch.setattr(memory, "_free_in_container", lambda: 2**30)
    memory.check_memory(2**30, "the images", "take fewer")
    with pytest.raises(InputError, match=r"the images need 2\.0 GiB, and 1\.0 GiB are free; take fewer\."):
        memory.check_memory(2 * 2**30, "the images", "take fewer")


def test_where_free_memory_is_unknown_nothing_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "_free_on_machine", lambda: None)
    monkeypatch.setattr(memory, "_free_in_container", lambda: None)
    memory.check_memory(2**60, "the images", "take fewer")


GROUP = {
    2: {
        "memory.max": "1000\n",
        "memory.current": "900\n",
        "memory.stat": "anon 600\nactive_file 100\ninactive_file 150\n",
    },
    1: {
        "memory.limit_in_bytes": "1000\n",
        "memory.usage_in_bytes": "900\n",
        "memory.stat": "active_file 1\ninactive_file 2\ntotal_active_file 100\ntotal_inactive_file 150\n",
    },
}


@pytest.mark.parametrize("version", GROUP)
def test_the_pages_of_files_count_as_free_in_a_container(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Data that are mapped to memory fill a container with such pages, which are given back when memory is needed."""
    own = tmp_path / "own"
    own.write_text("5:cpu:/elsewhere\n" + ("0::/outer/inner\n" if version == 2 else "4:memory:/outer/inner\n"))
    group = tmp_path / ("memory" if version == 1 else "") / "outer" / "inner"
    group.mkdir(parents=True)
    for name, content in GROUP[version].items():
        (group / name).write_text(content)
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    monkeypatch.setattr(memory, "OWN_GROUPS", own)
    assert memory._free_in_container() == 350
    (group / next(iter(GROUP[version]))).write_text("max\n")
    assert memory._free_in_container() is None
