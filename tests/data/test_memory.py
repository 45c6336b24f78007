from __future__ import annotations

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
