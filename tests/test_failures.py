"""What the command line shows when the disk, the path, the size or the user's own code is at fault."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import driftless as library
from driftless import Federation, InputError, failures
from driftless.data import memory
from runs.runs import MAIN, AfterRound, Outcome, assert_same_run, command, start, words

Command = Callable[..., Outcome]
LONG = "x" * 300
SMALL = Federation.from_clients([([[1.0]], [1.0])])


@pytest.fixture
def driftless(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """The command line, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: command(monkeypatch, capsys, *arguments)


def message(ended: Outcome, code: int = failures.MISTAKE) -> str:
    """The one message of a command that failed, a line at the end: before it may stand what a run was to do."""
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    found = re.search(r"^error: .*\n\Z", ended.err, re.MULTILINE)
    assert found is not None, ended.err
    return found.group()


# Words


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing argument 'PAPER/EXPERIMENT...'"),
        (["--skale", "small"], "No such option: --skale"),
        (["adabest", "--jobs", "many"], "'many' is not a valid integer"),
        (["adabest", "--[/bold]"], "No such option: --[/bold]"),
    ],
)
def test_a_mistake_in_the_words_of_reproduce_is_one_message(driftless: Command, arguments: list[str], said: str):
    ended = driftless("reproduce", *arguments)
    assert ended.code == failures.MISTAKE
    assert said in ended.err
    assert "Traceback" not in ended.err


# Paths

WRITERS = {
    "run": lambda output: ["run", *words("rounds=1", f"output={output}")],
    "compare": lambda output: ["compare", "fedavg", *words("rounds=1", "seeds=1", f"output={output}"), "--jobs", "1"],
    "tune": lambda output: ["tune", *words("rounds=1", "trials=1", f"output={output}"), "--jobs", "1"],
    "report": lambda output: ["report", "finished", "--output", f"{output}/report.html"],
    "figures": lambda output: ["report", "finished", "--figures", output],
    "reproduce": lambda output: ["reproduce", "adabest/figure-4", "--scale", "smoke", "-o", output, "-q"],
}
"""Every command that writes, with the place as an argument."""


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    ("place", "said"),
    [("/proc/x", "'/proc/"), (LONG, "file name too long; choose a shorter name"), ("loop", "loop"), ("file/x", "file")],
    ids=["read-only", "too long", "a link to itself", "below a file"],
)
def test_an_output_that_cannot_be_written_is_one_message(
    driftless: Command, tmp_path: Path, writer: str, place: str, said: str
):
    start(tmp_path / "finished", "rounds=1")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    assert said in message(driftless(*WRITERS[writer](place)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "finished", "loop"], "nothing is written"


@pytest.mark.parametrize("place", ["/proc/x", LONG, "loop", "file"])
def test_what_cannot_be_a_run_is_neither_resumed_nor_reported(driftless: Command, tmp_path: Path, place: str):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    message(driftless("resume", place))
    message(driftless("report", place))


def test_a_configuration_that_links_to_itself_is_one_message(driftless: Command, tmp_path: Path):
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    assert "'loop.toml'" in message(driftless("run", "loop.toml"))


# A full disk


@contextmanager
def room_for(size: int) -> Generator[None]:
    """No file can become larger: the write that would make it so fails, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_is_one_message(driftless: Command, tmp_path: Path, writer: str):
    start(tmp_path / "finished", "rounds=1")
    with room_for(1500):
        ended = driftless(*WRITERS[writer]("out"))
    assert "make room, then repeat the command" in message(ended, failures.MACHINE)
    assert not [path for path in tmp_path.rglob(".*") if path.name != ".claim"], "nothing half-written is left"


def test_a_run_on_a_full_disk_is_resumed_to_the_same_bits(driftless: Command, tmp_path: Path):
    start(tmp_path / "whole", "algorithm=scaffold")
    with room_for(6000):
        ended = driftless("run", *words("algorithm=scaffold", "output=run"), "--quiet")
    assert "'run/checkpoint/clients-00000003.safetensors' cannot be used: file too large" in message(
        ended, failures.MACHINE
    )
    assert driftless("resume", "run", "--quiet").code == 0
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_resumed_run_on_a_full_disk_can_be_resumed_again(driftless: Command, tmp_path: Path):
    whole, run = tmp_path / "whole", tmp_path / "run"
    start(whole, callbacks=[AfterRound([5], lambda: shutil.copytree(whole, run))])
    with room_for(2500):
        message(driftless("resume", "run", "--quiet"), failures.MACHINE)
    assert driftless("resume", "run", "--quiet").code == 0
    assert_same_run(whole, run)


def test_a_result_that_cannot_be_printed_is_one_message():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", MAIN, "list", "models"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
            check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    assert ended.returncode == failures.MACHINE
    assert ended.stderr.startswith("error: the output cannot be written: no space left on device")
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr


# Sizes

HUGE = [
    ("data.clients", 10**12, "clients must be a whole number of at most 1000000000"),
    ("data.clients", 10**8, "too few for 100000000 clients"),
    ("rounds", 10**30, "rounds must be a whole number of at most 1000000000"),
    ("cohort", 10**20, "larger than the federation of 20 clients"),
    ("local.batch_size", 10**20, "local.batch_size must be a whole number of at most"),
    ("local.epochs", 10**20, "local.epochs must be a whole number of at most"),
    ("local.epochs", 10**9, "the minibatches of a client"),
    ("seed", 10**40, "seed must be a whole number of at most 9223372036854775807"),
    ("data.seed", 10**40, "seed must be a whole number of at most 9223372036854775807"),
    ("engine.memory", 1e308, "engine.memory, in gigabytes, must be a number in (0, 1e+06]"),
    ("engine.workers", 200, "engine.workers must be a whole number of at most 128"),
    ("engine.threads", 10**5, "engine.threads must be a whole number of at most 1024"),
    ("engine.block_size", 10**20, "engine.block_size must be a whole number of at most"),
    ("run.evaluate_every", 10**40, "run.evaluate_every must be a whole number of at most"),
    ("run.checkpoint_every", 10**40, "run.checkpoint_every must be a whole number of at most"),
    ("run.patience", 10**40, "run.patience must be a whole number of at most"),
    ("server.warmup_rounds", 10**40, "server.warmup_rounds must be a whole number of at most"),
]


@pytest.mark.parametrize(("key", "value", "said"), HUGE, ids=[f"{key}={value:g}" for key, value, _ in HUGE])
def test_a_size_beyond_all_use_is_one_message(driftless: Command, tmp_path: Path, key: str, value: float, said: str):
    short = key.rpartition(".")[2]
    given = [word for word in words() if word.partition("=")[0] not in (key, short)]
    assert said in message(driftless("run", *given, f"{key}={value}"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda: library.load("digits", clients=10**12),
        lambda: library.load("digits", seed=10**40),
        lambda: library.load("quadratics", clients=10**8),
        lambda: library.LocalTraining(batch_size=10**20),
        lambda: library.LocalTraining(lr=10**400),
        lambda: library.EngineSettings(memory=1e308),
        lambda: library.EngineSettings(workers=200),
        lambda: library.ServerSchedule(warmup_rounds=10**40),
        lambda: library.simulate("fedavg", SMALL, "linear", rounds=10**30, cohort=1),
        lambda: library.simulate("fedavg", SMALL, "linear", rounds=1, cohort=10**20),
        lambda: library.simulate("fedavg", SMALL, "linear", rounds=1, cohort=1, seed=10**40),
        lambda: library.simulate("fedavg", SMALL, "linear", rounds=1, cohort=1, on_round=3),  # pyright: ignore
    ],
    ids=range(12),
)
def test_in_python_a_size_beyond_all_use_is_an_input_error(call: Callable[[], object]):
    with pytest.raises(InputError, match=r"\d"):
        call()


def test_a_seed_of_thousands_of_digits_is_one_message(driftless: Command):
    assert "run.seed must be a whole number" in message(driftless("run", *words(), f"seed=1{'0' * 5000}"))


@pytest.mark.parametrize("words", [["compare", "fedavg", "seeds=1"], ["tune", "seeds=1"], ["tune", "trials=1"]])
def test_a_number_of_runs_beyond_all_use_is_one_message(driftless: Command, words: list[str]):
    assert "less than or equal to" in message(driftless(*words[:-1], f"{words[-1]}{'0' * 20}"))


@pytest.mark.parametrize("option", ["--steps", "--batch-size", "--examples"])
def test_a_cost_beyond_all_use_is_one_message(driftless: Command, option: str):
    assert "must be a whole number of at most 1000000000" in message(driftless("cost", "mime", option, 10**20))


@pytest.mark.parametrize(
    "settings",
    [
        ["data=quadratics", "data.clients=100000000"],
        ["data=quadratics", "data.dimension=1000000"],
        ["data=linear-regression", "data.examples=1000000000"],
    ],
    ids=" ".join,
)
def test_data_that_do_not_fit_into_the_memory_are_one_message(driftless: Command, tmp_path: Path, settings: list[str]):
    said = message(driftless("run", *settings, "model=linear", "rounds=1", "cohort=2"))
    assert "GiB are free" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [MemoryError("no room for 7 TiB"), RuntimeError("can't allocate memory: 7 TiB")])
def test_data_whose_size_shows_only_while_they_are_loaded_are_one_message(error: Exception):
    said = r"the data do not fit into the memory \(.*7 TiB\); take less\."
    with pytest.raises(InputError, match=said), memory.fitting("the data", "take less"):
        raise error


def test_a_computation_that_does_not_fit_into_the_memory_is_one_message(driftless: Command, monkeypatch):
    def full(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 TiB")

    monkeypatch.setattr("driftless.engine.simulation.play_round", full)
    said = message(driftless("run", *words("output=run")), failures.MACHINE)
    assert "the memory is not enough while driftless was computing round 1" in said


# The user's own code

ALGORITHM = """
from dataclasses import dataclass
from driftless.algorithms import FedAvg

@dataclass(frozen=True)
class Mine(FedAvg):
    def update(self, server, mean, r):
        return halve(server)

def halve(server):
    return 1 / 0
"""
CALLBACK = """
from driftless.runs.callbacks import Callback

class Mine(Callback):
    def on_round(self, record):
        if record.round == 2:
            raise KeyError("mine")
"""


def own(ended: Outcome, file: Path) -> str:
    """The last line of a command that failed in the user's file, whose traceback is above it."""
    assert ended.err.startswith("Traceback (most recent call last):\n")
    assert ended.err.splitlines()[1].startswith(f'  File "{file}", line ')
    assert ended.err.count('File "') == ended.err.count(str(file)), "no line of ours"
    return ended.err.splitlines()[-1]


def test_an_error_in_a_users_algorithm_shows_its_traceback_and_the_round(driftless: Command, tmp_path: Path):
    file = tmp_path / "my.py"
    file.write_text(ALGORITHM)
    ended = driftless("run", *words(f"algorithm={file}:Mine", "output=run"), "--quiet")
    assert ended.code == failures.BUG
    assert own(ended, file) == (
        "error: your code raised ZeroDivisionError: division by zero while driftless was computing round 1."
    )
    assert "in halve" in ended.err


def test_an_error_in_a_users_callback_shows_its_traceback_and_the_round(driftless: Command, tmp_path: Path):
    file = tmp_path / "my.py"
    file.write_text(CALLBACK)
    ended = driftless("run", *words("output=run"), "--quiet", "--callback", f"{file}:Mine")
    assert ended.code == failures.BUG
    assert own(ended, file) == (
        "error: your code raised KeyError: 'mine' while driftless was calling the callbacks after round 2."
    )


def test_an_error_in_a_users_algorithm_in_another_process_shows_its_traceback(driftless: Command, tmp_path: Path):
    file = tmp_path / "my.py"
    file.write_text(ALGORITHM)
    ended = driftless("compare", "fedavg", f"{file}:Mine", *words("rounds=1", "seeds=1"), "--jobs", "2", "--quiet")
    assert ended.code == failures.BUG
    assert f'File "{file}", line' in ended.err
    assert "error: your code raised ZeroDivisionError: division by zero while driftless was" in ended.err


def test_in_python_an_error_of_on_round_comes_out_as_it_is_with_a_note():
    def fails(record: library.Record) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as raised:
        library.simulate("fedavg", SMALL, "linear", rounds=1, cohort=1, on_round=fails)
    assert raised.value.__notes__ == ["driftless was calling on_round after round 1"]


def test_a_bug_of_driftless_is_shown_whole_and_called_so(driftless: Command, monkeypatch):
    def broken(*_: object) -> None:
        raise AssertionError("impossible")

    monkeypatch.setattr("driftless.engine.simulation.play_round", broken)
    ended = driftless("run", *words("output=run"))
    assert ended.code == failures.BUG
    assert "Traceback (most recent call last)" in ended.err
    assert "This is a bug of driftless" in ended.err.splitlines()[-1]
