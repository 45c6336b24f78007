"""Small runs for the tests of experiments: made here or in other processes, cut short, and compared file by file."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from driftless import cli
from driftless.config import resolution as configuration
from driftless.config.resolution import Resolved
from driftless.runs.callbacks import Callback
from driftless.runs.directory import StoredRun
from driftless.runs.run import resume as resume_run
from driftless.runs.run import start as start_run

SMALL = [
    "data=digits", "data.clients=20", "data.partition=iid", "model=logistic", "cohort=5", "engine=block", "epochs=1",
    "batch_size=40", "rounds=8", "checkpoint_every=3",
]  # fmt: skip
"""What most runs of the tests are like: two local steps of five clients a round."""
DIVERGING = ["batch_size=none", "epochs=1", "weight_decay=1e7", "rounds=14"]
"""The model grows by a factor of a million a round; rounds 7, 8 and 9 are lost."""


def words(*changes: str) -> list[str]:
    """SMALL with some settings replaced or added; FedSGD's own local training where it is demanded."""
    settings = dict(word.split("=", 1) for word in [*SMALL, *changes])
    if settings["data"] != "digits" or any(word.startswith("partition=") for word in changes):
        settings = {key: value for key, value in settings.items() if (key, value) != ("data.partition", "iid")}
    if settings.get("algorithm") == "fedsgd":
        settings = {key: value for key, value in settings.items() if key not in ("epochs", "batch_size")}
    return [f"{key}={value}" for key, value in settings.items()]


def small(*changes: str) -> Resolved:
    return configuration.resolve(None, words(*changes))


def start(directory: Path, *changes: str, callbacks: Iterable[Callback] = ()) -> StoredRun:
    return start_run(small(*changes), directory, callbacks)


def resume(directory: Path) -> StoredRun:
    return resume_run(directory)


class AfterRound(Callback):
    """Calls a function after some rounds: before the round's checkpoint, after its line of metrics."""

    writes_nothing = True

    def __init__(self, rounds: Iterable[int], call: Callable[[], object]) -> None:
        self._rounds = set(rounds)
        self._call = call

    def on_round(self, record: Any) -> None:
        if record.round in self._rounds:
            self._call()


class Records(Callback):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.events: list[Any] = []
        self.first_rounds: list[int] = []
        self.results: list[Any] = []

    def on_start(self, config: Any, directory: Path | None, first_round: int) -> None:
        self.first_rounds.append(first_round)

    def on_round(self, record: Any) -> None:
        self.records.append(record)

    def on_event(self, event: Any) -> None:
        self.events.append(event)

    def on_end(self, result: Any) -> None:
        self.results.append(result)


def timeless(file: Path) -> bytes:
    """The file's bytes without the seconds that were measured."""
    return re.sub(rb'seconds": [^,}\n]+', b'seconds": 0', file.read_bytes())


def saved(directory: Path) -> dict[str, Tensor]:
    """All tensors of the newest checkpoint, the clients' rows one by one."""
    folder = directory / "checkpoint"
    manifest = manifest_of(max(folder.glob("manifest-*.json")))
    tensors = load_file(folder / manifest["server"]["name"])
    for store in ("clients", "models"):
        for segment in manifest[store]:
            rows = load_file(folder / segment["name"])
            ids = rows.pop("ids").tolist()
            tensors |= {
                f"{store}.{i}.{name}": row for name, table in rows.items() for i, row in zip(ids, table, strict=True)
            }
    return tensors


def manifest_of(file: Path) -> dict[str, Any]:
    return json.loads(json.loads(file.read_text(encoding="utf-8"))["manifest"])


def assert_same_run(one: Path, other: Path) -> None:
    """The same metrics, events, result, server tensors and client rows, to the bit."""
    for name in ("metrics.jsonl", "events.jsonl", "result.json"):
        assert timeless(one / name) == timeless(other / name), name
    tensors, others = saved(one), saved(other)
    assert tensors.keys() == others.keys()
    for name, tensor in tensors.items():
        assert tensor.dtype == others[name].dtype, name
        assert torch.equal(tensor, others[name]), name


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> Outcome:
    """The command line in this process."""
    monkeypatch.setattr(sys, "argv", ["driftless", *map(str, arguments)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    return Outcome(int(ended.value.code or 0), out, err)


MAIN = "from driftless.cli import main; main()"


@contextmanager
def process(*arguments: object, program: str = MAIN) -> Generator[subprocess.Popen[str]]:
    """The command line in a process of its own; nothing of it, nor of its children, is left behind."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def lines(directory: Path) -> int:
    """Rounds whose line of metrics is complete."""
    file = directory / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def wait_until(condition: Callable[[], bool], child: subprocess.Popen[str], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if child.poll() is not None or time.monotonic() > deadline:
            said = child.communicate()[1] if child.poll() is not None else "it still runs"
            raise AssertionError(f"the process did not come so far (exit code {child.poll()}): {said}")
        time.sleep(0.002)
