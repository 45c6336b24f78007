"""Code that a run directory names is executed only where it is needed, and only if it is what it was."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
from pathlib import Path

import pytest

from driftless.config.user_code import algorithm_class
from driftless.errors import InputError
from driftless.runs.directory import StoredRun
from driftless.runs.run import resume as resume_run
from runs.runs import AfterRound, assert_same_run, command, start, words

SOURCE = """
from dataclasses import dataclass
from driftless.algorithms import FedAvg

@dataclass(frozen=True)
class Mine(FedAvg):
    factor: float = 0.5
"""


def leaves_a_trace(file: Path) -> Path:
    """Change the file: when it is executed, a file `trace` is beside it."""
    trace = file.with_name("trace")
    file.write_text(f"open({str(trace)!r}, 'w').close()\n{SOURCE}", encoding="utf-8")
    return trace


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "my.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path / "my.py"


@pytest.fixture
def killed(tmp_path: Path, file: Path) -> Path:
    """A run of the user's algorithm, killed in round 5; beside it the `whole` one."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    cut = AfterRound([5], lambda: shutil.copytree(whole, run))
    start(whole, f"algorithm={file}:Mine", "factor=0.25", callbacks=[cut])
    return run


def test_a_run_is_resumed_with_the_code_it_was_started_with(tmp_path: Path, killed: Path):
    resume_run(killed)
    assert_same_run(tmp_path / "whole", killed)


def test_changed_code_is_not_executed_and_the_error_says_what_changed(killed: Path, file: Path):
    trace = leaves_a_trace(file)
    with pytest.raises(InputError, match=r"my\.py' is not known to be the code of the run.*--trust"):
        resume_run(killed)
    assert not trace.exists()


def test_changed_code_that_is_trusted_is_executed_and_the_change_is_an_event(
    killed: Path, file: Path, monkeypatch, capsys
):
    trace = leaves_a_trace(file)
    refused = command(monkeypatch, capsys, "resume", killed)
    assert refused.code == 2
    assert "my.py" in refused.err
    assert not trace.exists()
    ended = command(monkeypatch, capsys, "resume", killed, "--trust", "--quiet")
    assert ended.code == 0, ended.err
    assert trace.exists()
    assert "my.py" in StoredRun(killed).events[0]["what"]


def test_code_whose_checksum_was_not_recorded_needs_trust(tmp_path: Path, killed: Path):
    """As in a run of an earlier version."""
    config = killed / "config.toml"
    config.write_text(config.read_text(encoding="utf-8").partition("[code]")[0], encoding="utf-8")
    with pytest.raises(InputError, match=r"SHA-256 then: not recorded.*--trust"):
        resume_run(killed)
    resume_run(killed, trust=True)
    assert (StoredRun(killed).result or {})["rounds"] == 8


@pytest.mark.parametrize("missing", [False, True])
def test_only_text_is_needed_to_look_at_a_run(killed: Path, file: Path, monkeypatch, capsys, missing: bool):
    """Report, configuration and the settings from Python: with other code, and without any."""
    trace = leaves_a_trace(file)
    if missing:
        file.unlink()
    assert StoredRun(killed).config.algorithm.model_extra == {"factor": 0.25, "server_lr": 1.0}
    shown = command(monkeypatch, capsys, "run", killed / "config.toml", "--print-config")
    assert shown.code == 0, shown.err
    assert "factor = 0.25" in shown.out
    ended = command(monkeypatch, capsys, "report", killed)
    assert ended.code == 0, ended.err
    assert "my.py:Mine" in (killed / "report.html").read_text(encoding="utf-8")
    assert not trace.exists()


def test_the_table_of_a_comparison_needs_no_code_and_missing_runs_only_the_code_they_had(
    tmp_path: Path, file: Path, monkeypatch, capsys
):
    folder = tmp_path / "compared"
    settings = [*words("rounds=2"), "seeds=1", f"output={folder}"]
    assert command(monkeypatch, capsys, "compare", "fedavg", f"{file}:Mine", *settings, "--jobs", "1").code == 0
    trace = leaves_a_trace(file)
    shown = command(monkeypatch, capsys, "resume", folder, "--json")
    assert shown.code == 0, shown.err
    assert len(json.loads(shown.out)["algorithms"]) == 2
    for run in folder.glob("my-Mine*/seed-0"):
        for name in ("result.json", "config.toml", "metrics.jsonl"):
            (run / name).unlink()
    refused = command(monkeypatch, capsys, "resume", folder, "--jobs", "1")
    assert (refused.code, trace.exists()) == (2, False)
    assert "my.py" in refused.err
    assert command(monkeypatch, capsys, "resume", folder, "--jobs", "1", "--trust").code == 0
    assert trace.exists()


def test_a_search_is_continued_only_with_the_code_that_it_had(tmp_path: Path, file: Path, monkeypatch, capsys):
    pytest.importorskip("optuna")
    folder = tmp_path / "search"
    settings = [*words("rounds=2"), "space.lr=[0.1, 0.2]", "trials=1", f"output={folder}"]
    ended = command(monkeypatch, capsys, "tune", f"algorithm={file}:Mine", *settings, "--jobs", "1", "--quiet")
    assert ended.code == 0, ended.err
    trace = leaves_a_trace(file)
    refused = command(monkeypatch, capsys, "resume", folder, "--jobs", "1")
    assert (refused.code, trace.exists()) == (2, False)
    assert command(monkeypatch, capsys, "resume", folder, "--jobs", "1", "--trust").code == 0


def test_what_is_executed_are_the_bytes_of_the_file_and_not_those_of_a_cache(file: Path):
    """Python trusts a cache of the same size and time."""
    source = file.read_bytes()
    file.write_bytes(source.replace(b"0.5", b"0.7"))
    py_compile.compile(str(file), doraise=True)
    before = file.stat()
    file.write_bytes(source)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert algorithm_class(f"{file}:Mine")().factor == 0.5  # pyright: ignore[reportAttributeAccessIssue]
