"""Runs with much client state: on disk, in several files of a checkpoint, in half the precision, on a full disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from disks import mounted
from driftless import failures
from driftless.errors import InputError
from driftless.runs.directory import StoredRun
from runs.runs import AfterRound, assert_same_run, resume, start

SCAFFOLD = "algorithm=scaffold"


def part_of_run(folder: Path, *settings: str) -> Path:
    """A run as it was after round 5, with its checkpoint of round 3."""
    copied = AfterRound([5], lambda: shutil.copytree(folder / "run", folder / "part"))
    start(folder / "run", SCAFFOLD, *settings, callbacks=[copied])
    return folder / "part"


def test_a_run_on_disk_has_the_bits_of_one_in_memory_and_leaves_no_file(tmp_path: Path):
    start(tmp_path / "memory", SCAFFOLD, "inference=clients", "engine.store=memory")
    start(tmp_path / "disk", SCAFFOLD, "inference=clients", "engine.store=disk")
    assert_same_run(tmp_path / "memory", tmp_path / "disk")
    names = [{path.name for path in (tmp_path / kind).rglob("*")} for kind in ("memory", "disk")]
    assert names[0] == names[1]


def test_a_run_may_be_resumed_with_another_store(tmp_path: Path):
    part = part_of_run(tmp_path, "engine.store=disk")
    config = part / "config.toml"
    config.write_text(config.read_text().replace('store = "disk"', 'store = "memory"'))
    resume(part)
    assert_same_run(tmp_path / "run", part)


def test_what_the_run_needs_is_recorded(tmp_path: Path):
    start(tmp_path / "run", SCAFFOLD, "engine.store=disk")
    found = StoredRun(tmp_path / "run").environment["needs"]
    assert found.startswith("up to 52 KB on disk for the state of 20 clients, ")


def test_a_run_that_cannot_fit_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("driftless.engine.memory_needed.free_memory", lambda: 1000)
    with pytest.raises(InputError, match=r"needs up to .* and 1\.0 KB of memory are free"):
        start(tmp_path / "run", SCAFFOLD)
    assert not (tmp_path / "run").exists()


def test_many_rows_are_saved_in_several_files_and_resumed_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    start(tmp_path / "whole", SCAFFOLD)
    monkeypatch.setattr("driftless.runs.checkpoint.MOST_BYTES", 2 * 650 * 4)  # rows of two clients
    part = part_of_run(tmp_path)
    files = {path.name for path in (part / "checkpoint").glob("clients-*.safetensors")}
    assert {"clients-00000003.safetensors", "clients-00000003.1.safetensors", "clients-00000003.2.safetensors"} <= files
    resume(part)
    assert_same_run(tmp_path / "whole", part)


def test_what_an_unfinished_save_left_behind_is_removed_when_the_run_is_resumed(tmp_path: Path):
    part = part_of_run(tmp_path)
    left = [part / "checkpoint" / f"clients-00000004.safetensors{end}" for end in ("", ".copy")]
    for path in left:
        path.write_bytes(b"half of a save")
    resume(part)
    assert not any(path.exists() for path in left)


def test_checkpoints_have_the_type_in_which_client_state_is_stored(tmp_path: Path):
    """Also with two processes, between which states travel as the algorithm computes them."""
    settings = ["engine.store_dtype=bfloat16", "engine.block_size=2"]
    start(tmp_path / "whole", SCAFFOLD, *settings)
    part = part_of_run(tmp_path, *settings, "engine.store=disk", "engine.workers=2")
    for path in (part / "checkpoint").glob("clients-*.safetensors"):
        assert load_file(path)["000"].dtype == torch.bfloat16
    resume(part)
    assert_same_run(tmp_path / "whole", part)


# --------------------------------------------------------------------------------------------------------- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    with mounted(tmp_path / "disk", "4m") as folder:
        yield folder


def fill(folder: Path, left: int) -> None:
    (folder / "other").write_bytes(bytes(shutil.disk_usage(folder).free - left))


@pytest.mark.parametrize("workers", [1, 2])
def test_client_state_on_a_full_disk_is_one_message_and_the_run_is_resumed_to_the_same_bits(
    small_disk: Path, tmp_path: Path, workers: int
):
    """The states of new clients need four pages, and two are left."""
    settings = [SCAFFOLD, "engine.store=disk", "engine.block_size=2", f"engine.workers={workers}"]
    start(tmp_path / "whole", *settings)
    page = os.sysconf("SC_PAGE_SIZE")
    with pytest.raises((OSError, failures.WorkerDied)) as ended:
        start(small_disk / "run", *settings, callbacks=[AfterRound([4], lambda: fill(small_disk, 2 * page))])
    failure = failures.explain(ended.value)
    assert failure.code == failures.MACHINE
    assert "o space left on device" in failure.message
    assert "resume" in failure.message
    (small_disk / "other").unlink()
    resume(small_disk / "run")
    assert_same_run(tmp_path / "whole", small_disk / "run")
