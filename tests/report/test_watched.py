from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from driftless.report.watched import Watched, age, status_text, version_of
from report.runs import Folder, accuracies, write_run


def append_round(folder: Path, number: int) -> None:
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"round": number, "test_accuracy": 0.5}) + "\n")


def test_the_version_changes_with_every_round_new_run_end_and_deletion(folder: Folder):
    first = folder("fedavg", 0, [0.1], "run.rounds=3", status=None)
    watched = Watched([folder.path])
    versions = [version_of(watched.look())]
    append_round(first.path, 2)
    versions.append(version_of(watched.look()))
    second = folder("scaffold", 0, [0.1], "run.rounds=3", status=None)
    versions.append(version_of(watched.look()))
    (second.path / "result.json").write_text('{"status": "stopped"}', encoding="utf-8")
    versions.append(version_of(watched.look()))
    shutil.rmtree(second.path)
    versions.append(version_of(watched.look()))
    assert version_of(watched.look()) == versions[-1]
    assert len(set(versions)) == 4
    assert versions[1] == versions[4]  # the same runs as before


def test_only_a_run_that_has_changed_is_read_again(folder: Folder):
    runs = [folder(name, 0, [0.1], "run.rounds=3", status=None) for name in ("fedavg", "scaffold")]
    watched = Watched([folder.path])
    before = watched.look()
    append_round(runs[1].path, 2)
    after = watched.look()
    assert [new.stored is old.stored for old, new in zip(before, after, strict=True)] == [True, False]
    assert [run.progress.done for run in after] == [1, 2]


def test_the_state_of_every_run_is_told_also_of_planned_ones(folder: Folder):
    folder("fedavg", 0, [0.1, 0.2])
    folder("fedavg", 1, [0.1], "run.rounds=5", status=None)
    folder("fedavg", 2, [0.1], "run.rounds=5", status="diverged")
    planned = folder("fedavg", 3, [], "run.rounds=7", status=None)
    (planned.path / "config.toml").rename(planned.path / "planned.toml")
    (planned.path / "metrics.jsonl").unlink()
    seen = Watched([folder.path]).look()
    assert [(run.progress.done, run.progress.total, run.progress.status) for run in seen] == [
        (2, 2, "finished"), (1, 5, "going on"), (1, 5, "diverged"), (0, 7, "planned"),
    ]  # fmt: skip
    text = status_text(seen)
    assert text.startswith("4 runs: 1 finished, 1 going on, 1 diverged, 1 planned; 4 of 19 rounds; last round ")
    assert text.endswith("s ago")


def test_a_run_without_a_round_is_there_with_none(tmp_path: Path):
    write_run(tmp_path / "run", ["run.rounds=3"], [], status=None)
    (seen,) = Watched([tmp_path]).look()
    assert seen.has_begun
    assert seen.progress[1:] == (0, 3, "going on")


def test_no_run_and_folders_given_twice(tmp_path: Path):
    assert status_text(Watched([tmp_path]).look()) == "No run yet."
    write_run(tmp_path / "run", [], accuracies([0.5]))
    assert len(Watched([tmp_path, tmp_path / "run"]).look()) == 1


def test_a_round_of_long_ago_is_said_to_be_so(folder: Folder):
    run = folder("fedavg", 0, [0.1], "run.rounds=5", status=None)
    then = time.time() - 600
    os.utime(run.path / "metrics.jsonl", (then, then))
    assert status_text(Watched([folder.path]).look()).endswith("last round 10 min ago")


@pytest.mark.parametrize(("seconds", "text"), [(-3, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h")])
def test_ages_are_given_in_the_unit_that_fits(seconds: float, text: str):
    assert age(seconds) == text
