from __future__ import annotations

import shlex
from pathlib import Path

from driftless.report.curves import group
from driftless.report.notes import ending_early, environments, notes_of
from driftless.runs.directory import StoredRun
from report.runs import Folder, write_run


def texts(runs: list[StoredRun]) -> str:
    return "\n".join(f"{note.text} {note.command}" for note in notes_of(group(runs)))


def test_runs_in_which_nothing_happened_have_no_notes(comparison: list[StoredRun]):
    assert notes_of(group(comparison)) == []
    assert ending_early(group(comparison)) == []


def test_a_divergence_is_noted_with_its_likely_cause(folder: Folder):
    reason = "diverged at round 2: rounds 2 to 4 gave no finite update. Likely cause: local steps with lr=9 blow up."
    run = folder("ghbm", 3, [0.1] * 4, "run.rounds=9", status="diverged", reason=reason)
    assert texts([run]).strip() == f"ghbm, seed 3: {reason}"


def test_stopped_and_unfinished_runs_are_noted_with_what_to_do(folder: Folder):
    stopped = folder("fedavg", 0, [0.1] * 2, "run.rounds=9", status="stopped", reason="reached the target 0.1")
    unfinished = folder("fedavg", 1, [0.1] * 3, "run.rounds=9", status=None)
    text = texts([stopped, unfinished])
    assert "fedavg, seed 0: stopped after round 2 of 9: reached the target 0.1." in text
    assert f"not finished, 3 of 9 rounds so far. driftless resume {shlex.quote(str(unfinished.path))}" in text
    assert ending_early(group([stopped, unfinished])) == ["fedavg"]


def test_failures_and_events_are_noted_with_their_rounds_and_clients(tmp_path: Path):
    rows = [{"round": t, "failure": int(t in (2, 5))} for t in range(1, 7)]
    what = "update not finite: left out of the round"
    events = [{"round": t, "what": what, "clients": [t, t + 10]} for t in range(1, 6)]
    text = texts([write_run(tmp_path / "a", ["run.seed=4"], rows, events=events)])
    assert "fedavg: training accuracy halved within a round, seed 4 in rounds 2, 5." in text
    assert (
        f"fedavg: {what} (10 times in 5 rounds; seeds 4; rounds 1, 2, 3, 4, 5; clients 1, 2, 3, 4, 5, 11 and 4 more)."
        in text
    )


def test_repeated_and_unequal_seeds_are_noted(folder: Folder):
    runs = [folder("fedavg", 0, [0.1]), folder("fedavg", 0, [0.1]), folder("ghbm", 1, [0.1])]
    text = texts(runs)
    assert f"fedavg, seed 0: more than one run; {runs[1].path} is not counted." in text
    assert "The curves do not have the same seeds (fedavg: 0; ghbm: 1)" in text


def test_environments_list_every_value_that_occurs_and_survive_a_missing_file(folder: Folder):
    first = folder("fedavg", 0, [0.1], environment={"torch": "2.13.0", "cores": 2, "started": "2026-01-02"})
    second = folder("fedavg", 1, [0.1], environment={"torch": "2.13.0", "cores": 8, "started": "2026-01-01"})
    assert environments(group([first, second])) == [
        ("torch", "2.13.0"), ("cores", "2; 8"), ("started", "2026-01-01 to 2026-01-02"),
    ]  # fmt: skip
    lost = folder("fedavg", 2, [0.1], environment=None)
    assert environments(group([lost])) == [("environment.json", f"cannot be read in {lost.path}")]
