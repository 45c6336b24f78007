"""Exact resume: killed at any moment, a run continues to the same bits as one that was never interrupted.

Real processes are killed with SIGKILL, in the middle of a round or of writing a file, and at random moments. In this
process, every algorithm is cut off at a random round, and one run at every single write that it makes.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from driftless import ALGORITHMS
from driftless.cli import main
from driftless.config.resolution import resolve
from driftless.runs.directory import StoredRun, is_run
from driftless.runs.run import resume as resume_run
from driftless.runs.run import start as start_run
from runs.runs import MAIN, AfterRound, assert_same_run, lines, process, resume, small, start, wait_until, words

# Real processes. They kill themselves, so that a busy machine does not let them finish before the kill arrives.

ROUNDS = 24
LONGER = [f"rounds={ROUNDS}", "checkpoint_every=4", "epochs=3", "batch_size=20"]
DURING_WRITE = """
import os, signal, sys
left, fsync = int(sys.argv.pop(1)), os.fsync

def killed_in_the_middle(descriptor):
    global left
    left -= os.readlink(f"/proc/self/fd/{descriptor}").endswith(".tmp")
    if not left:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(descriptor)

os.fsync = killed_in_the_middle
"""
"""A process that dies when half of its n-th file is written."""
AFTER_ROUND = """
import os, signal, sys
from driftless.runs.files import Lines
last, left, write = int(sys.argv.pop(1)), int(sys.argv.pop(1)), Lines.write

def count_calls(frame, event, argument):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

def write_and_count(self, content):
    write(self, content)
    if content.get("round") == last and "train_loss" in content:
        sys.setprofile(count_calls)

Lines.write = write_and_count
"""
"""A process that dies so many calls and returns of functions after a round's line of metrics."""
CALLS = 20_000
"""At most so many; a round has 7,500 or more."""


class Kill(NamedTuple):
    program: str
    at: int
    """The number of the file, or of the round."""


class Case(NamedTuple):
    settings: list[str]
    kills: list[Kill]


CASES = {
    "adabest": Case(["algorithm=adabest"], [Kill(AFTER_ROUND, 3), Kill(AFTER_ROUND, 9)]),
    "scaffold": Case(["algorithm=scaffold"], [Kill(DURING_WRITE, 12), Kill(AFTER_ROUND, 19)]),
    "ghbm": Case(["algorithm=ghbm", "tau=3"], [Kill(DURING_WRITE, 8)]),
    "feddyn, all clients' models": Case(["algorithm=feddyn", "inference=clients"], [Kill(AFTER_ROUND, 1)]),
    "scaffold with faults": Case(
        ["algorithm=scaffold", "dropout=0.3", "attack=nan", "attackers=0.2"],
        [Kill(AFTER_ROUND, 5), Kill(AFTER_ROUND, 14)],
    ),
    "feddyn on disk": Case(["algorithm=feddyn", "inference=clients", "engine.store=disk"], [Kill(AFTER_ROUND, 6)]),
}
PAIRS = [list(CASES)[i : i + 2] for i in range(0, len(CASES), 2)]


def kill_repeatedly(run: Path, name: str) -> None:
    """Start the case's run and resume it, each time in a process that is killed."""
    case, calls = CASES[name], random.Random(name)
    for number, (program, at) in enumerate(case.kills):
        arguments = ["resume", str(run)] if number else ["run", *words(*LONGER, *case.settings, f"output={run}")]
        moment = [at] if program is DURING_WRITE else [at, calls.randint(1, CALLS)]
        with process(*moment, *arguments, "--quiet", program=f"{program}\n{MAIN}") as child:
            _, said = child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL, f"the process ended before it was killed: {said}"
        assert not (run / "result.json").exists()
        assert 1 <= lines(run) < ROUNDS


@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_a_killed_process_is_resumed_to_the_same_bits(tmp_path: Path, pair: list[str]):
    with ThreadPoolExecutor(2) as pool:
        killed = {name: pool.submit(kill_repeatedly, tmp_path / name, name) for name in pair}
        for name in pair:
            start(tmp_path / f"{name} whole", *LONGER, *CASES[name].settings)
    for name, future in killed.items():
        future.result()
        resume(tmp_path / name)
        assert_same_run(tmp_path / f"{name} whole", tmp_path / name)


KILLS = int(os.environ.get("DRIFTLESS_KILLS", "4"))
"""Of the next test; `make soak` takes 200."""


def killed_after(moment: float, run: Path, settings: list[str]) -> bool:
    """Start or continue the run in a process that is killed after so many seconds; whether it was still running."""
    arguments = ["resume", str(run)] if is_run(run) else ["run", *words(*settings, f"output={run}")]
    child = multiprocessing.get_context("fork").Process(target=play_quietly, args=(arguments,))
    child.start()
    child.join(moment)
    child.kill()
    child.join()
    return child.exitcode == -signal.SIGKILL


def play_quietly(arguments: list[str]) -> None:
    sys.argv = ["driftless", *arguments, "--quiet"]
    main()


def test_a_run_killed_at_random_moments_is_resumed_to_the_same_bits(tmp_path: Path):
    """Forked processes, which cost no imports, are killed, run after run, until there were as many kills as wanted."""
    moments, kills = random.Random(KILLS), 0
    for number, name in enumerate(itertools.cycle(CASES)):
        settings = [*LONGER, "checkpoint_every=1", *CASES[name].settings, f"seed={number}"]
        whole, run = tmp_path / f"{number} whole", tmp_path / f"{number}"
        begin = time.monotonic()
        start(whole, *settings)
        seconds = time.monotonic() - begin
        while not (run / "result.json").exists():
            kills += killed_after(moments.uniform(0, seconds), run, settings)
            if kills >= KILLS and is_run(run) and not (run / "result.json").exists():
                resume(run)
        assert_same_run(whole, run)
        shutil.rmtree(whole)
        shutil.rmtree(run)
        if kills >= KILLS:
            break


def test_the_commands_of_the_documentation_work_as_written(tmp_path):
    """run ... rounds=60 ..., killed between two checkpoints, then resume, both in processes of their own."""
    settings = ["algorithm=adabest", "data=digits", "rounds=60", "cohort=10", "seed=3", "checkpoint_every=5"]
    run = tmp_path / "DIR"
    with process("run", *settings, f"output={run}", "--quiet") as child:
        wait_until(lambda: lines(run) >= 12, child)
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=30)
    assert 12 <= lines(run) < 60
    with process("resume", run) as child:
        out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert f"next: driftless report {run}" in out
    config = StoredRun(run).config
    engine = [f"engine={config.engine.kind}", f"block_size={config.engine.block_size}", "threads=1"]
    start_run(resolve(None, [*settings, *engine]), tmp_path / "whole")
    assert_same_run(tmp_path / "whole", run)


# Every algorithm, in this process

VARIANTS = {name: [f"algorithm={name}"] for name in ALGORITHMS} | {
    "feddyn, all clients' models": ["algorithm=feddyn", "inference=clients"],
    "adabest, clipping": ["algorithm=adabest", "clipping=adaptive", "clipping_initial=0.05"],
    "scaffold, one client after the other": ["algorithm=scaffold", "engine=single"],
    "fedhbm, double precision, small blocks": ["algorithm=fedhbm", "precision=float64", "block_size=2"],
    "ghbm, a window shorter than the run": ["algorithm=ghbm", "tau=2"],
    "adabest, plateau": ["algorithm=adabest", "beta_decay=0.5", "plateau_rounds=1"],
    "feddyn, by size": ["algorithm=feddyn", "size_adaptive=true", "partition=dirichlet", "alpha=0.5"],
    "scaffold, by size": ["algorithm=scaffold", "size_adaptive=true", "partition=dirichlet", "alpha=0.5"],
    "fedadam, warm-up": ["algorithm=fedadam", "warmup_rounds=6", "lr_scaling=sqrt", "reference_cohort=2"],
    "fedavg, cyclic cohorts, lr decay": ["algorithm=fedavg", "cohort=cyclic:6", "lr_decay=0.9"],
    "fedavg, bootstrap, validation": ["algorithm=fedavg", "last_batch=bootstrap", "validation=4"],
    "scaffold, lost clients": [
        "algorithm=scaffold",
        "dropout=0.5",
        "dropout_spread=0.5",
        "over_selection=1.4",
        "deadline=250",
        "availability=diurnal",
        "availability_day=3",
    ],
    "feddyn, attackers": ["algorithm=feddyn", "attack=sign-flip", "attackers=0.2", "inference=clients"],
    "scaffold, wrong labels, empty rounds": [
        "algorithm=scaffold",
        "attack=label-flip",
        "attackers=0.2",
        "cohort=1",
        "dropout=0.6",
    ],
    "scaffold, no checkpoint yet": ["algorithm=scaffold", "checkpoint_every=0"],
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_cut_off_in_a_random_round_is_resumed_to_the_same_bits(tmp_path: Path, name: str):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    round = random.Random(name).randint(1, 4)
    changes = ["rounds=5", "checkpoint_every=2", *VARIANTS[name]]
    start(whole, *changes, callbacks=[AfterRound([round], lambda: shutil.copytree(whole, cut))])
    assert lines(cut) == round
    with (cut / "metrics.jsonl").open("ab") as file:
        file.write(b'{"round": 99, "lr": 0.1, "coh')  # the kill came in the middle of a line
    resume_run(cut, warn=pytest.fail)
    assert_same_run(whole, cut)


class Killed(BaseException):
    """Stands for SIGKILL where the process must survive to look at what is left."""


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> Iterator[None]:
    """The `number`-th call of os.fsync, os.replace or os.unlink is the last one; a file being written is left half."""
    original, count = getattr(os, call), 0

    def counted(*arguments: Any) -> None:
        nonlocal count
        count += 1
        if count == number:
            if call == "fsync" and os.readlink(f"/proc/self/fd/{arguments[0]}").endswith(".tmp"):
                os.ftruncate(arguments[0], os.fstat(arguments[0]).st_size // 2)
            raise Killed
        original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, counted)
        yield


@pytest.mark.parametrize(("call", "rounds", "least"), [("fsync", 3, 22), ("replace", 3, 11), ("unlink", 4, 4)])
def test_a_run_cut_off_at_any_of_its_writes_is_resumed_to_the_same_bits(tmp_path, monkeypatch, call, rounds, least):
    changes = ["algorithm=scaffold", f"rounds={rounds}", "checkpoint_every=1", "batch_size=none"]
    start(tmp_path / "whole", *changes)
    number = 0
    finished = False
    while not finished:
        number += 1
        run = tmp_path / f"{call} {number}"
        try:
            with killed_at(monkeypatch, call, number):
                start_run(small(*changes), run)
            finished = True
        except Killed:
            if (run / "result.json").exists():
                pass  # killed after the last write: nothing is left to do
            elif is_run(run):
                resume_run(run, warn=pytest.fail)
            else:
                start(run, *changes)  # killed before there was a run
        assert_same_run(tmp_path / "whole", run)
    assert number > least


def test_a_run_cut_off_at_a_write_while_it_is_resumed_is_still_exact(tmp_path, monkeypatch):
    changes = ["algorithm=adabest", "rounds=6", "checkpoint_every=2", "batch_size=none"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    start(whole, *changes, callbacks=[AfterRound([3], lambda: shutil.copytree(whole, cut))])
    for number in range(1, 10):  # two checkpoints of four files, and the result
        run = Path(shutil.copytree(cut, tmp_path / f"{number}"))
        with pytest.raises(Killed), killed_at(monkeypatch, "replace", number):
            resume(run)
        resume(run)
        assert_same_run(whole, run)
