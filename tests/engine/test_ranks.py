"""Ranks that a launcher has started play one run: the bits of one process, one message, one end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torchmetrics.classification import MulticlassAccuracy

import driftless
from driftless import Diverged, EngineSettings, EvaluationSettings, Faults, InputError, LocalTraining, Result, simulate
from driftless.config.resolution import resolve
from driftless.runs import run as runs
from driftless.runs.callbacks import Callback
from engine.launch import command, launch
from engine.own import Poisoned
from engine.problems import classification, network

SIZES = [3, 7, 4, 9, 5, 6, 2, 8]
LOCAL = LocalTraining(lr=0.1, epochs=1, batch_size=3)
ENGINE = EngineSettings("block", block_size=2)


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def played(algorithm: Any = "scaffold", **options: Any) -> Result:
    settings: dict[str, Any] = {"rounds": 3, "cohort": 4, "local": LOCAL, "engine": ENGINE, "dtype": torch.float64}
    return simulate(algorithm, classification(SIZES), network(), **{**settings, **options})


def summary(result: Result) -> dict[str, Any]:
    """All that a script can see, without times."""
    return {
        "x": result.x.tolist(),
        "inference": result.inference.tolist(),
        "module": [parameter.tolist() for parameter in result.module().parameters()],
        "rows": [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in result.history],
        "round": result.state.round,
        "client_metrics": result.client_metrics,
    }


def script() -> None:
    """What each rank prints, a line of JSON for each part."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    seen: list[int] = []

    def tell(**what: Any) -> None:
        print(json.dumps(what))  # noqa: T201

    first = played(
        on_round=lambda record: seen.append(record.round), metrics=[MulticlassAccuracy(3, dist_sync_on_step=True)]
    )
    tell(**summary(first), workers=first.engine["workers"], seen=seen, events=first.events)
    faults = Faults(dropout=0.3, availability="client", attack="label-flip", attackers=0.3)
    evaluation = EvaluationSettings(cohort=True)
    second = played(rounds=5, state=first.state, faults=faults, evaluation=evaluation)
    tell(**summary(second), accuracies=second.state.accuracies)
    try:
        played(Poisoned(rounds=(2, 3, 4)), rounds=9)
    except Diverged as error:
        tell(round=error.round, message=str(error), rows=len(error.history), told=bool(error.events))
    if "RANK" in os.environ:
        ours = torch.tensor([rank() + 1.0])
        dist.all_reduce(ours)  # the script's own group works on after the runs
        tell(sum=float(ours))


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    (ended,) = launch([script], tmp_path_factory.mktemp("alone"), [{}])
    assert ended.code == 0, ended.err
    return lines(ended.out)


def test_a_script_gets_the_bits_of_one_process_on_every_rank(tmp_path: Path, alone: list[dict[str, Any]]):
    """With a group of its own, and with more ranks than blocks."""
    size = 3
    ended = launch([script] * size, tmp_path)
    assert [each.code for each in ended] == [0] * size, ended
    for number, each in enumerate(ended):
        first, second, diverged, reduced = lines(each.out)
        assert first.pop("workers") == size
        assert first.pop("seen") == ([1, 2, 3] if number == 0 else []), "on_round is called on rank 0 only"
        assert [what for _, what, _ in first.pop("events")] == [
            "3 ranks for 2 blocks: 1 without work in a round; a smaller engine.block_size makes more blocks, "
            "and other bits"
        ]
        assert first == {name: value for name, value in alone[0].items() if name in first}
        assert [second, diverged] == alone[1:]
        assert reduced == {"sum": size * (size + 1) / 2}


# --- the command line

SETTINGS = [
    "data=digits",
    "data.clients=12",
    "model=logistic",
    "cohort=6",
    "local.epochs=1",
    "engine.kind=block",
    "engine.block_size=2",
    "rounds=4",
    "checkpoint_every=1",
]


def run_words(output: Path, *more: str, algorithm: str = "scaffold") -> list[str]:
    return ["run", *SETTINGS, *more, f"algorithm={algorithm}", f"output={output}"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Of the run in one process."""
    folder = tmp_path_factory.mktemp("run alone")
    assert launch([command(*run_words(folder / "run"))], folder, [{}])[0].code == 0
    return (folder / "run" / "model.safetensors").read_bytes()


def test_settings_that_differ_are_named_once_and_nothing_is_written(tmp_path: Path):
    words = [run_words(tmp_path / "run"), run_words(tmp_path / "run", "local.lr=0.25")]
    first, second = launch([command(*each) for each in words], tmp_path)
    assert (first.code, second.code) == (2, 2)
    assert "error: the ranks are not to play the same run: local.lr is 0.1 on rank 0 (" in first.err
    assert "and 0.25 on rank 1 (" in first.err
    assert first.err.count("error:") == 1
    assert second.out + second.err == ""
    assert not (tmp_path / "run").exists()


def test_a_mistake_that_all_ranks_share_is_told_once(tmp_path: Path):
    ended = launch([command(*run_words(tmp_path / "run", algorithm="scafold"))] * 2, tmp_path)
    assert [each.code for each in ended] == [2, 2]
    assert ended[0].err.startswith("error: unknown algorithm 'scafold'")
    assert ended[1].out + ended[1].err == ""


def test_a_mistake_of_one_rank_is_told_by_rank_0(tmp_path: Path):
    words = [run_words(tmp_path / "run"), ["run", "elsewhere.toml", f"output={tmp_path / 'run'}"]]
    first, second = launch([command(*each) for each in words], tmp_path)
    assert (first.code, second.code) == (2, 2)
    assert "error: rank 1 (" in first.err
    assert "elsewhere.toml" in first.err
    assert "Traceback" not in first.err
    assert second.out + second.err == ""
    assert not (tmp_path / "run").exists()


FAILING = """
import os
from dataclasses import dataclass
from driftless.algorithms import Scaffold

@dataclass(frozen=True)
class Fails(Scaffold):
    def direction(self, step, local, msg, client, r):
        if os.environ.get("RANK") == "1" and os.environ.get("MET") == "yes":
            raise LookupError("the dog ate it")
        return super().direction(step, local, msg, client, r)
"""


def test_an_error_on_another_rank_ends_all_with_its_cause(tmp_path: Path):
    file = tmp_path / "fails.py"
    file.write_text(FAILING)

    def call() -> None:
        def follow(*arguments: Any) -> None:  # in the rounds, not in a trial before them
            os.environ["MET"] = "yes"
            return original(*arguments)

        from driftless.engine import simulation

        original, simulation.follow = simulation.follow, follow
        command(*run_words(tmp_path / "run", algorithm=f"{file}:Fails"))()

    first, second = launch([call] * 2, tmp_path)
    assert first.code == 4, first
    assert "error: rank 1 (" in first.err
    assert "LookupError: the dog ate it" in first.err
    assert "in direction" in first.err
    assert f"Continue with: driftless resume {tmp_path / 'run'}" in first.err
    assert second.code != 0
    assert second.out + second.err == "", "rank 0 tells it"


def test_only_rank_0_needs_the_directory_of_a_run_that_is_resumed(tmp_path: Path, weights: bytes):
    part = tmp_path / "part"

    def interrupted() -> None:
        def stop(*_: Any) -> None:
            signal.raise_signal(signal.SIGTERM)

        Stop = type("Stop", (Callback,), {"on_round": stop})
        runs.start(resolve(None, run_words(part)[1:]), part, [Stop()])

    launch([interrupted], tmp_path, [{}])
    assert len((part / "metrics.jsonl").read_text().splitlines()) == 1
    words = [["resume", str(part)], ["resume", str(tmp_path / "not here")]]
    ended = launch([command(*each) for each in words], tmp_path)
    assert [each.code for each in ended] == [0, 0], ended
    assert (part / "model.safetensors").read_bytes() == weights


def test_a_run_of_a_script_is_written_by_rank_0_and_known_to_all(tmp_path: Path):
    def call() -> None:
        folder = tmp_path / f"rank {rank()}"
        for _ in range(2):  # the second time it has ended
            run = driftless.run(
                "scaffold", classification(SIZES), network(), output=folder, rounds=2, cohort=6, local=LOCAL
            )
            assert run.result is not None
            print(run.history["norm_x"], run.result["status"], run.config.run.rounds)  # noqa: T201
        try:
            run.module(network())
            print("module")  # noqa: T201
        except InputError as error:
            print(error)  # noqa: T201

    first, second = launch([call, call], tmp_path)
    assert (first.code, second.code) == (0, 0), (first, second)
    assert first.out.splitlines()[:2] == second.out.splitlines()[:2]
    assert "finished 2" in first.out
    assert first.out.splitlines()[2] == "module"
    assert "cannot be seen" in second.out.splitlines()[2]
    assert (tmp_path / "rank 0").exists()
    assert not (tmp_path / "rank 1").exists()


def test_what_plays_several_runs_is_refused(tmp_path: Path):
    def call() -> None:
        with pytest.raises(InputError, match="tune plays several runs side by side"):
            driftless.tune("fedavg", classification(SIZES), network(), output=tmp_path / "tune", rounds=2, cohort=2)
        command("compare", "fedavg", "scaffold", "rounds=2", f"output={tmp_path / 'compare'}")()

    first, second = launch([call, call], tmp_path)
    assert (first.code, second.code) == (2, 2)
    assert "compare plays several runs side by side on one machine, and 2 ranks were started" in first.err
    assert second.err == ""
    assert not (tmp_path / "compare").exists()


# --- torchrun itself

DIES = """
import os, signal
from dataclasses import dataclass
from driftless.algorithms import Scaffold

@dataclass(frozen=True)
class Dies(Scaffold):
    def update(self, server, mean, r):
        if int(r.t) == 3 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "0":
            os.kill(int(open(os.environ["OTHER"]).read()), signal.SIGKILL)
        return super().update(server, mean, r)

if os.environ.get("RANK") == "1":
    open(os.environ["OTHER"], "w").write(str(os.getpid()))
"""


def test_torchrun_restarts_a_run_of_which_a_rank_was_killed_and_it_reaches_the_same_bits(
    tmp_path: Path, weights: bytes
):
    file = tmp_path / "dies.py"
    file.write_text(DIES)
    words = [*run_words(tmp_path / "run", algorithm=f"{file}:Dies")]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    start = time.monotonic()
    ended = subprocess.run(
        [*torchrun, "-m", "driftless", *words],
        env=os.environ | {"OTHER": str(tmp_path / "pid")}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert time.monotonic() - start < 60
    assert "exitcode: -9" in ended.stderr, "torchrun tells which rank was killed, before the other rank can"
    assert ended.stdout.count("saved in") == 1
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == weights
    assert [json.loads(line)["round"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()] == [
        1,
        2,
        3,
        4,
    ]
