"""Runs with several workers: saved whole, and continued to the same bits by any number of processes."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch

from driftless.errors import InputError, WorkerDied
from driftless.runs.lock import locked
from driftless.runs.run import Interrupted
from driftless.runs.run import resume as resume_run
from runs.runs import AfterRound, assert_same_run, lines, process, saved, start, wait_until, words

BLOCKS = ["block_size=2", "threads=1"]
"""What the bits depend on and what workers leave open: three blocks a round."""
CASES = {
    "scaffold, fewer": (["algorithm=scaffold"], 2, 1),
    "scaffold, more": (["algorithm=scaffold"], 1, 2),
    "adabest": (["algorithm=adabest", "cohort=cyclic:6"], 1, 3),
    "feddyn, all clients' models": (["algorithm=feddyn", "inference=clients"], 2, 1),
    "mime": (["algorithm=mime"], 3, 2),
}
"""Settings, and the number of workers before and after."""


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert multiprocessing.active_children() == []


def test_the_number_of_workers_changes_nothing_in_a_run_directory_but_what_says_so(tmp_path: Path):
    for workers in (1, 2):
        stored = start(tmp_path / f"{workers}", "algorithm=adabest", *BLOCKS, f"workers={workers}")
        assert (stored.config.engine.workers, stored.config.engine.threads) == (workers, 1)
    assert_same_run(tmp_path / "1", tmp_path / "2")


@pytest.mark.parametrize("workers", [1, 2])
def test_blocks_do_not_depend_on_the_number_of_workers(tmp_path: Path, workers: int):
    """Otherwise the bits would. The cohort of five makes one short step: one block."""
    engine = start(tmp_path / "run", "rounds=1", f"workers={workers}").config.engine
    assert (engine.block_size, engine.threads, engine.workers) == (5, 1, workers)


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_was_interrupted_is_resumed_by_another_number_of_workers(tmp_path: Path, name: str):
    changes, first, second = CASES[name]
    run, settings = tmp_path / "run", [*changes, *BLOCKS]
    interrupt = AfterRound([4], lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted):
        start(run, *settings, f"workers={first}", callbacks=[interrupt])
    assert lines(run) == 4
    resume_run(run, workers=second)
    start(tmp_path / "whole", *settings)
    assert_same_run(tmp_path / "whole", run)


def test_a_run_is_cut_off_and_resumed_again_and_again(tmp_path: Path):
    """Two workers, cut off; one, cut off; three to the end. Rounds after a checkpoint are played twice."""
    settings, run = ["algorithm=scaffold", *BLOCKS, "rounds=11"], tmp_path / "first"
    copies = {1: tmp_path / "second", 3: tmp_path / "third"}
    start(run, *settings, "workers=2", callbacks=[AfterRound([4], lambda: shutil.copytree(run, copies[1]))])
    resume_run(copies[1], [AfterRound([8], lambda: shutil.copytree(copies[1], copies[3]))], workers=1)
    resume_run(copies[3], workers=3)
    start(tmp_path / "whole", *settings)
    for other in (run, *copies.values()):
        assert_same_run(tmp_path / "whole", other)


def test_every_checkpoint_holds_the_rows_of_all_clients_whoever_has_them(tmp_path: Path):
    """Each round's checkpoint, looked at after the next round, is that of a run in one process."""
    seen: dict[int, list[dict[str, torch.Tensor]]] = {1: [], 3: []}
    for workers, found in seen.items():
        run = tmp_path / f"{workers}"
        look = AfterRound(range(2, 9), lambda run=run, found=found: found.append(saved(run)))
        changes = ["algorithm=scaffold", *BLOCKS, "checkpoint_every=1", f"workers={workers}"]
        stored = start(run, *changes, callbacks=[look])
        assert len({name.split(".")[1] for name in saved(stored.path) if name.startswith("clients.")}) > 12
    assert len(seen[1]) == len(seen[3]) == 7
    for one, other in zip(seen[1], seen[3], strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_number_of_workers_that_cannot_be_is_refused_and_the_run_is_left_as_it_was(tmp_path: Path):
    run, whole = tmp_path / "run", tmp_path / "whole"
    start(whole, "threads=2", callbacks=[AfterRound([4], lambda: shutil.copytree(whole, run))])
    with pytest.raises(InputError, match=r"started with 2 threads.*Resume without --workers"):
        resume_run(run, workers=2)
    with pytest.raises(InputError, match=r"workers must be a whole number of at least 1, got 0"):
        resume_run(run, workers=0)
    assert lines(run) == 4
    resume_run(run)
    assert_same_run(whole, run)


def test_a_worker_that_is_killed_leaves_a_run_that_can_be_resumed(tmp_path: Path):
    run, settings = tmp_path / "run", ["algorithm=adabest", *BLOCKS]

    def kill() -> None:
        (child,) = multiprocessing.active_children()
        os.kill(child.pid or 0, signal.SIGKILL)

    with pytest.raises(WorkerDied) as caught:
        start(run, *settings, "workers=2", callbacks=[AfterRound([5], kill)])
    for part in ("worker 1 of 2 has ended", "SIGKILL", f"Continue with: driftless resume {run}"):
        assert part in str(caught.value)
    assert not (run / "result.json").exists()
    resume_run(run)
    start(tmp_path / "whole", *settings)
    assert_same_run(tmp_path / "whole", run)


# Real processes

LONGER = ["rounds=24", "checkpoint_every=4", "epochs=3", "batch_size=20", "algorithm=scaffold", *BLOCKS]


def workers_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def assert_ended(pids: list[int]) -> None:
    deadline = time.monotonic() + 10
    while any(map(alive, pids)):
        assert time.monotonic() < deadline, "a worker is left behind"
        time.sleep(0.01)


def test_processes_with_workers_are_killed_and_interrupted_and_the_run_reaches_the_same_bits(tmp_path, monkeypatch):
    """Two workers, killed; three, and Ctrl-C, which reaches all processes of a terminal; at the end one."""
    run = tmp_path / "run"
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # to see that a killed process leaves nothing there
    with process("run", *words(*LONGER, "workers=2", f"output={run}"), "--quiet") as child:
        wait_until(lambda: lines(run) >= 6, child)
        workers = workers_of(child.pid)
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=30)
        assert len(workers) == 1
        assert_ended(workers)
    with locked(run):
        pass  # its workers hold no lock
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert 6 <= lines(run) < 24
    with process("resume", run, "--workers", 3, "--quiet") as child:
        wait_until(lambda: lines(run) >= 13, child)
        workers = workers_of(child.pid)
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=30)
        assert len(workers) == 2
        assert_ended(workers)
    assert child.returncode == 130, err
    assert f"stopped after round {lines(run)}; continue with: driftless resume {run}" in err
    assert "Traceback" not in err
    assert 13 <= lines(run) < 24
    assert (run / "checkpoint" / f"manifest-{lines(run):08d}.json").exists()
    resume_run(run, workers=1)
    start(tmp_path / "whole", *LONGER)
    assert_same_run(tmp_path / "whole", run)
