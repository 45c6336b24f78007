"""Faults of a run on disk: its trace belongs to it, and directories of versions without faults are continued."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from driftless import InputError
from driftless.runs.directory import StoredRun
from driftless.runs.run import fingerprint
from runs.runs import AfterRound, assert_same_run, command, resume, small, start, words


def trace(folder: Path, *losses: tuple[int, int]) -> Path:
    file = folder / "trace.csv"
    file.write_text("round,client,fault\n" + "".join(f"{t},{client},dropout\n" for t, client in losses))
    return file


ALWAYS = [(t, client) for t in range(1, 9) for client in range(10)]


def test_a_run_is_resumed_from_any_folder_with_the_trace_it_was_started_with(tmp_path, monkeypatch):
    trace(tmp_path, *ALWAYS)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    monkeypatch.chdir(tmp_path)
    copied = AfterRound([5], lambda: shutil.copytree(whole, cut))
    run = start(whole, "algorithm=scaffold", "faults.trace=trace.csv", callbacks=[copied])
    assert sum(row["lost_dropout"] for row in run.rows) > 8
    assert all(client < 10 for event in run.events for client in event["clients"])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    resume(cut)
    assert_same_run(whole, cut)


def test_a_run_whose_trace_has_changed_is_not_continued(tmp_path):
    file = trace(tmp_path, *ALWAYS)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    start(whole, f"faults.trace={file}", callbacks=[AfterRound([5], lambda: shutil.copytree(whole, cut))])
    trace(tmp_path, *ALWAYS[:-1])
    with pytest.raises(InputError, match="the faults, or their trace changed since then"):
        resume(cut)
    file.unlink()
    with pytest.raises(InputError, match="there is no trace"):
        resume(cut)


def test_a_directory_of_a_version_without_faults_is_continued(tmp_path):
    """Its config.toml, fingerprint.json and checkpoint know nothing of them."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    start(whole, "algorithm=scaffold", callbacks=[AfterRound([5], lambda: shutil.copytree(whole, cut))])
    config = (cut / "config.toml").read_text().split("\n\n")
    (cut / "config.toml").write_text("\n\n".join(part for part in config if not part.startswith("[faults]")))
    prints = json.loads((cut / "fingerprint.json").read_text())
    (cut / "fingerprint.json").write_text(json.dumps({name: prints[name] for name in prints if name != "faults"}))
    resume(cut)
    assert_same_run(whole, cut)
    assert fingerprint(small().config) != fingerprint(small("dropout=0.1").config)


def test_the_command_line_says_what_was_lost_in_a_line_for_each_reason(tmp_path, monkeypatch, capsys):
    settings = words("dropout=0.4", "over_selection=1.4", "rounds=12", "seed=1")
    outcome = command(monkeypatch, capsys, "run", *settings, f"output={tmp_path / 'run'}")
    assert outcome.code == 0
    assert "; faults: dropout 0.4, over-selection 1.4; " in outcome.err
    run = StoredRun(tmp_path / "run")
    lost = int(sum(row["lost_dropout"] for row in run.rows))
    rounds = [row["round"] for row in run.rows if row["lost_dropout"]]
    said = f"dropped out of the round, state kept as it was: {lost} times in {len(rounds)} rounds, first in round "
    said += str(rounds[0])
    assert said in outcome.out
    assert len(outcome.out.splitlines()) < 14


def test_the_page_of_a_run_with_many_losses_has_one_note_for_each_reason(tmp_path, monkeypatch, capsys):
    start(tmp_path / "run", "dropout=0.5", "rounds=30", "cohort=5")
    outcome = command(monkeypatch, capsys, "report", tmp_path / "run", f"--output={tmp_path / 'page.html'}")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "page.html").read_text().count("dropped out of the round") == 1
