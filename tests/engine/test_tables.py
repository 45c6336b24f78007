"""Tables in files that are mapped to memory; what both kinds do is in test_clients.py."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest
import torch

from disks import mounted
from driftless.engine.clients import ClientStore
from driftless.engine.tables import FileTable, MemoryTable

ROW = torch.zeros(1024)
SIZE = 4096


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    with mounted(tmp_path / "disk", "64k") as folder:
        yield folder


def test_the_file_has_no_name(tmp_path: Path):
    table = FileTable(ROW, 0, tmp_path)
    table.reserve(3)
    table.write(np.arange(3), torch.ones(3, 1024))
    assert list(tmp_path.iterdir()) == []


def test_only_rows_that_were_written_take_space(tmp_path: Path):
    table = FileTable(ROW, 1000, tmp_path)
    table.reserve(1)
    assert len(table.values) == 1000
    table.write(np.array([7, 8, 500]), torch.ones(3, 1024))
    found = os.fstat(table._file.fileno())
    assert found.st_size == 1000 * SIZE
    assert found.st_blocks * 512 < 30 * SIZE


def test_memory_is_taken_when_it_is_used():
    """Room for a million rows, which is 4 GB."""
    table = MemoryTable(ROW, 10**6)
    table.reserve(1)
    before = resident()
    table.write(np.array([999_999]), torch.ones(1, 1024))
    assert resident() - before < 16 * 2**20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("rows", [[0], [3, 4, 5], [5, 4, 3], [9, 2, 3, 0, 1]])
def test_rows_are_written_to_their_places(rows: list[int], tmp_path: Path):
    table = FileTable(ROW, 0, tmp_path)
    table.reserve(10)
    table.write(np.array(rows), torch.arange(len(rows)).view(-1, 1).expand(-1, 1024).float())
    assert [float(table.values[row].mean()) for row in rows] == list(range(len(rows)))


def test_rows_stay_when_the_table_grows(tmp_path: Path):
    table = FileTable(ROW, 0, tmp_path)
    for rows in (1, 2, 3, 50):
        table.reserve(rows)
        table.write(np.array([rows - 1]), torch.full((1, 1024), float(rows)))
    assert [float(table.values[rows - 1].mean()) for rows in (1, 2, 3, 50)] == [1, 2, 3, 50]


def test_a_full_disk_is_an_error_that_names_the_folder_and_what_was_stored_stays(small_disk: Path):
    """Not a signal, which writing to a mapped file would end in."""
    store = ClientStore(small_disk)
    store.put(range(10), (torch.ones(10, 1024),))
    with pytest.raises(OSError) as full:
        store.put(range(10, 40), (torch.ones(30, 1024),))
    assert full.value.errno == errno.ENOSPC
    assert full.value.filename == str(small_disk)
    assert store.clients == list(range(10))
    assert torch.equal(store.get(range(10), (ROW,))[0], torch.ones(10, 1024))
    store.put([0, 3], (torch.full((2, 1024), 2.0),))
    assert float(store.get([3], (ROW,))[0].mean()) == 2.0


def test_vectors_are_stored_in_another_type_and_numbers_in_their_own():
    """A round of 257 is no number of bfloat16."""
    store = ClientStore(dtype=torch.bfloat16)
    vector, number = torch.full((1, 3), 1.0 + 2**-9), torch.tensor([257.0])
    store.put([4], (vector, number))
    rows = store.rows([4])
    assert [row.dtype for row in rows] == [torch.bfloat16, torch.float32]
    found = store.get([4, 5], (torch.full((3,), 0.1), torch.tensor(0.1)))
    assert [leaf.dtype for leaf in found] == [torch.float32, torch.float32]
    assert found[0].tolist() == [[1.0] * 3, torch.full((3,), 0.1).tolist()]
    assert found[1].tolist() == torch.tensor([257.0, 0.1]).tolist()
