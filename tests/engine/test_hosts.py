"""Two hosts, as network namespaces joined by a virtual cable: same bits, a host that is killed, a cable that is cut."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftless.engine import watch
from driftless.runs import run
from engine.launch import Hosts, Rank, command, launch, lines_in, two_hosts

ROUNDS = 6
SETTINGS = (
    "algorithm=scaffold data=digits data.clients=12 model=logistic cohort=6 local.epochs=1 engine.kind=block "
    f"engine.block_size=2 rounds={ROUNDS} checkpoint_every=2"
).split()


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    try:
        with two_hosts() as hosts:
            yield hosts
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces are not allowed here: {getattr(error, 'stderr', error)}")


def run_words(output: Path, *more: str) -> list[str]:
    return ["run", *SETTINGS, f"output={output}", *more]


def weights_of(output: Path) -> bytes:
    return (output / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The weights of the run in one process."""
    folder = tmp_path_factory.mktemp("alone")
    (ended,) = launch([command(*run_words(folder / "run"))], folder, [{}])
    assert ended.code == 0, ended.err
    return weights_of(folder / "run")


def test_two_hosts_on_a_slow_link_give_the_bits_of_one_process(hosts: Hosts, tmp_path: Path, alone: bytes):
    hosts.slow()
    words = [run_words(tmp_path / "run"), run_words(tmp_path / "not here")]
    ended = launch([command(*each) for each in words], tmp_path, hosts.environments(), hosts.names)
    assert [each.code for each in ended] == [0, 0], ended
    assert "saved in" in ended[0].out
    assert ended[1].out + ended[1].err == ""
    assert weights_of(tmp_path / "run") == alone
    assert not (tmp_path / "not here").exists(), "only rank 0 writes"


def slowed(output: Path) -> list[str]:
    """So that it can be hit in the middle: callbacks are called on rank 0."""
    file = output.parent / "pause.py"
    file.write_text(
        "import time\nfrom driftless.runs.callbacks import Callback\n\n\nclass Pause(Callback):\n"
        "    def on_round(self, record):\n        time.sleep(0.3)\n"
    )
    return run_words(output, "--callback", f"{file}:Pause")


def test_a_host_that_is_killed_ends_the_run_which_is_continued_by_one_process(
    hosts: Hosts, tmp_path: Path, alone: bytes
):
    def kill(ranks: list[Rank]) -> None:
        lines_in(tmp_path / "run" / "metrics.jsonl", 3)
        ranks[1].kill()

    call = command(*slowed(tmp_path / "run"))
    first, second = launch([call, call], tmp_path, hosts.environments(), hosts.names, kill)
    assert second.code == -signal.SIGKILL
    assert first.code == 4, first
    assert "of 2 has ended without a word; was it killed?" in first.err
    assert f"Continue with: driftless resume {tmp_path / 'run'}" in first.err
    assert "Traceback" not in first.err
    assert first.at - second.at < 10
    run.resume(tmp_path / "run")
    assert weights_of(tmp_path / "run") == alone


def test_a_cable_that_is_cut_ends_both_hosts(
    hosts: Hosts, tmp_path: Path, alone: bytes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(watch, "SILENCE", 1.5)

    def cut(ranks: list[Rank]) -> None:
        lines_in(tmp_path / "run" / "metrics.jsonl", 3)
        hosts.unplug()

    call = command(*slowed(tmp_path / "run"))
    first, second = launch([call, call], tmp_path, hosts.environments(), hosts.names, cut)
    assert (first.code, second.code) == (4, 4), (first, second)
    assert "rank 1 (" in first.err
    assert "has not answered for 1.5 seconds" in first.err
    assert "rank 0 (" in second.err, "nobody else can say it there"
    assert "Traceback" not in first.err + second.err
    run.resume(tmp_path / "run")
    assert weights_of(tmp_path / "run") == alone
