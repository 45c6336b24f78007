"""Planned runs are started, resumed or skipped; several at once in processes of their own."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from driftless.config.resolution import to_toml
from driftless.errors import WorkerDied
from driftless.runs.directory import PLANNED
from driftless.runs.jobs import Shared, Tick, play, run_jobs
from driftless.runs.lock import Locked, locked
from driftless.runs.run import start_or_resume
from runs.runs import AfterRound, Records, assert_same_run, small, start, timeless


def planned(folder: Path, *changes: str) -> Path:
    folder.mkdir(parents=True)
    (folder / PLANNED).write_text(to_toml(small(*changes)), encoding="utf-8")
    return folder


def test_a_planned_run_is_started_then_resumed_then_skipped(tmp_path: Path):
    run, whole, seen = tmp_path / "run", planned(tmp_path / "whole"), [Records() for _ in range(3)]
    cut = AfterRound([5], lambda: shutil.copytree(whole, run))
    start_or_resume(whole, [seen[0], cut])
    start_or_resume(run, [seen[1]])
    before = timeless(run / "metrics.jsonl")
    assert start_or_resume(run, [seen[2]]).result is not None
    assert [records.first_rounds for records in seen] == [[1], [4], []]
    assert timeless(run / "metrics.jsonl") == before
    assert_same_run(whole, run)


def test_settings_that_are_given_need_no_plan(tmp_path: Path):
    assert start_or_resume(tmp_path / "run", [], small("rounds=1")).rows
    assert start_or_resume(tmp_path / "run").rows


def test_finished_and_resumed_rounds_are_counted_once(tmp_path: Path):
    done, half, new = tmp_path / "done", tmp_path / "half", planned(tmp_path / "new")
    start(done, callbacks=[AfterRound([5], lambda: shutil.copytree(done, half))])
    progress: list[int] = []
    stored = play([done, half, new], progress.append, 1)
    assert [len(run.rows) for run in stored] == [8, 8, 8]
    assert progress == [*range(12, 25), 24]  # 8 of the first, 3 that the second had saved, one after the other


def test_a_run_that_another_process_keeps_writing_is_an_error_in_the_end(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("driftless.runs.jobs.SECONDS_FOR_A_LOCK", 0.2)
    folder = planned(tmp_path / "run")
    with locked(folder), pytest.raises(Locked, match="is writing the run"):
        play([folder], lambda rounds: None, 1)


def kill_itself(shared: Shared, tick: Tick) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_an_error_that_says_how_to_go_on():
    with pytest.raises(WorkerDied, match="can be continued, with fewer --jobs"):
        run_jobs(kill_itself, [(), ()], 2, Shared(0), lambda: None)
