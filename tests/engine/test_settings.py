"""What a user leaves open is decided by rules: from the model, the work and the cohort, never from a clock."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from driftless import Diverged, EngineSettings, InputError, LocalTraining
from driftless.engine import settings as rules
from driftless.engine.settings import LARGEST_BLOCK, WORTH_PROCESSES, block_size, number_of_workers
from engine.own import Poisoned
from engine.problems import classification, linear, network, regression, run, seeded

DEFAULTS = {
    "device": "cpu", "store": "memory", "store_dtype": None, "threads": 1, "workers": 1, "memory": 1.0, "replay": True,
}  # fmt: skip


@pytest.fixture
def two_threads() -> Iterator[None]:
    """torch has two threads, as on a machine with two cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class Branching(nn.Module):
    """A model that asks for the value of a tensor, which vmap cannot lift."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        if (inputs @ self.weight).sum() > 0:
            return inputs @ self.weight + self.bias
        return inputs @ self.weight - self.bias


class Convolutional(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(6, 3))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.GRU(1, 3, batch_first=True), nn.Linear(3, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.layer(inputs.unsqueeze(-1))[0][:, -1])


# --- one client after the other, or blocks


@pytest.mark.parametrize(("make", "kind"), [(network, "block"), (Convolutional, "single"), (Recurrent, "single")])
def test_convolutions_and_recurrence_are_trained_one_client_after_the_other_the_rest_in_blocks(make: Any, kind: str):
    result, _ = run("fedavg", classification([3, 5, 4]), seeded(make), engine="auto")
    assert result.engine["kind"] == kind
    assert result.events == []


def test_the_engine_that_was_asked_for_is_the_one_that_runs():
    federation, module = regression([3, 5, 4]), linear()

    def engine(**options: Any) -> dict[str, object]:
        return run("fedavg", federation, module, **options)[0].engine

    assert engine(engine="single") == {"kind": "single", "block_size": 1, **DEFAULTS}
    assert engine(engine="block") == {"kind": "block", "block_size": 3, **DEFAULTS}
    assert engine(block_size=2) == {"kind": "block", "block_size": 2, **DEFAULTS}
    assert engine(block_size=2, workers=2) == {"kind": "block", "block_size": 2, **DEFAULTS, "workers": 2}
    assert engine(replay=False) == {"kind": "block", "block_size": 3, **DEFAULTS, "replay": False}


def test_a_cohort_of_one_needs_no_blocks():
    assert run("fedavg", regression([3, 5]), linear(), engine="auto", cohort=1)[0].engine["kind"] == "single"


def test_a_model_that_vmap_cannot_lift_is_trained_one_by_one_and_an_event_gives_the_reason():
    federation = regression([3, 5, 4])
    result, _ = run("fedavg", federation, Branching().double(), engine="auto", rounds=20)
    assert result.engine["kind"] == "single"
    assert "not in blocks: vmap cannot lift it" in result.events[0].what
    assert result.history["train_loss"][-1] < result.history["train_loss"][0]


def test_a_loss_that_vmap_cannot_lift_is_computed_for_one_client_at_a_time():
    def branching(outputs: Tensor, targets: Tensor) -> Tensor:
        error = (outputs - targets).abs().mean()
        return error if error > 0.1 else error**2

    result, _ = run("fedavg", regression([3, 5, 4]), linear(), engine="auto", loss=branching)
    assert result.engine["kind"] == "single"


def test_blocks_that_were_asked_for_and_cannot_be_are_an_error_before_the_first_round():
    rounds: list[Any] = []
    with pytest.raises(InputError) as error:
        run("fedavg", regression([3, 5, 4]), seeded(Branching), engine="block", on_round=rounds.append)
    for part in ("engine='block'", "vmap", "Use engine='single' or 'auto'"):
        assert part in str(error.value)
    assert rounds == []


def test_auto_is_the_engine_that_it_decides_for():
    federation, module = classification([4, 6, 5]), network(dropout=0.3)
    local = LocalTraining(lr=0.1, epochs=1, batch_size=3)
    auto, _ = run("fedavg", federation, module, engine="auto", local=local)
    same, _ = run("fedavg", federation, module, engine=str(auto.engine["kind"]), local=local)
    assert auto.engine == same.engine
    assert torch.equal(auto.x, same.x)


# --- threads


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("engine", ["auto", "block", "single"])
@pytest.mark.parametrize("threads", [None, 1, 3])
def test_a_process_has_one_thread_unless_it_is_set_and_torchs_number_comes_back(engine: str, threads: int | None):
    during: list[int] = []
    given = {} if threads is None else {"threads": threads}
    run("fedavg", regression([3, 5]), linear(), engine=engine, rounds=1, **given,
        on_round=lambda _: during.append(torch.get_num_threads()))  # fmt: skip
    assert during == [threads or 1]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_the_threads_of_torch_come_back_after_every_kind_of_end():
    federation, module = regression([3, 5, 4, 6]), linear()

    def fail(_: object) -> None:
        assert torch.get_num_threads() == 1
        raise LookupError("in on_round")

    with pytest.raises(LookupError):
        run("fedavg", federation, module, on_round=fail)
    assert torch.get_num_threads() == 2
    with pytest.raises(Diverged):
        run(Poisoned(rounds=(1, 2, 3)), federation, module, rounds=4)
    assert torch.get_num_threads() == 2
    with pytest.raises(InputError, match="vmap"):
        run("fedavg", federation, seeded(Branching))
    assert torch.get_num_threads() == 2


# --- how many clients a block has

MEGABYTE = 2**20


@pytest.mark.parametrize(
    ("clients", "fitting", "seconds", "size"),
    [
        (7, 100, 1e-6, 7),  # short steps: all at once
        (10, 4, 1e-6, 3),  # the memory asks for three blocks; a power of two are four: 3, 3, 2, 2
        (1000, 1e9, 1e-6, 63),  # no block has more than 64: sixteen blocks
        (65, 1e9, 1e-6, 33),  # 33, 32 rather than 64, 1
        (10, 0.5, 1e-6, 1),  # one client is the least
        (10, 100, 2e-3, 3),  # four clients are enough: four blocks
        (10, 100, 1.0, 1),  # long steps: every client is a block
        (1, 100, 1e-6, 1),
    ],
)
def test_blocks_are_large_enough_for_short_steps_and_fit_into_the_memory(clients, fitting, seconds, size):
    assert block_size(fitting * MEGABYTE / 2**30, MEGABYTE, seconds, clients) == size


@given(clients=st.integers(1, 300), fitting=st.integers(1, 100), seconds=st.floats(1e-7, 1))
def test_blocks_fit_and_their_number_is_a_power_of_two_or_each_client_is_one(clients, fitting, seconds):
    size = block_size(fitting * MEGABYTE / 2**30, MEGABYTE, seconds, clients)
    blocks = -(-clients // size)
    assert 1 <= size <= max(1, min(LARGEST_BLOCK, fitting))
    assert 2 ** (blocks - 1).bit_length() >= blocks
    assert size == 1 or blocks <= 2 * -(-clients // min(LARGEST_BLOCK, fitting, max(1, round(2e-3 / seconds))))


def test_the_block_size_does_not_depend_on_the_number_of_cores(monkeypatch: pytest.MonkeyPatch):
    sizes = set()
    for cores in (1, 2, 64):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        sizes.add(run("fedavg", regression([3, 5, 4] * 8), linear(), rounds=1)[0].engine["block_size"])
    assert len(sizes) == 1


# --- how many processes


@pytest.mark.parametrize(
    ("settings", "seconds", "blocks", "workers"),
    [
        ({}, 10 * WORTH_PROCESSES, 8, 4),  # one for each core
        ({}, 10 * WORTH_PROCESSES, 3, 3),  # no more than blocks
        ({}, 0.5 * WORTH_PROCESSES, 8, 1),  # a round of a few milliseconds stays in one process
        ({"workers": 6}, 0.0, 2, 6),  # what is set is taken
        ({"threads": 2}, 10 * WORTH_PROCESSES, 8, 1),  # threads instead of processes
    ],
)
def test_a_round_with_enough_work_gets_a_process_for_each_core(settings, seconds, blocks, workers, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    assert number_of_workers(EngineSettings(**settings), seconds, blocks, torch.device("cpu")) == workers


def test_forked_processes_are_not_for_an_accelerator():
    cuda = torch.device("cuda", 0)
    assert number_of_workers(EngineSettings(), 10.0, 8, cuda) == 1
    with pytest.raises(InputError, match="a forked process cannot use cuda:0"):
        number_of_workers(EngineSettings(workers=2), 10.0, 8, cuda)


def test_the_estimate_of_a_step_grows_with_operations_and_parameters(monkeypatch: pytest.MonkeyPatch):
    found: list[float] = []
    original = rules.step_seconds
    monkeypatch.setattr(rules, "step_seconds", lambda work: found.append(original(work)) or found[-1])

    def seconds(hidden: int, batch: int) -> float:
        module = seeded(lambda: nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 1), nn.Flatten(0)))
        run("fedavg", regression([64, 64]), module, local=LocalTraining(steps=1, batch_size=batch), rounds=1)
        return found[-1]

    assert seconds(6400, 4) > 50 * seconds(64, 4)
    assert seconds(64, 64) > seconds(64, 4)


# --- settings that cannot be


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"kind": "blok"}, ("engine must be one of 'auto', 'block', 'single'", "'blok'")),
        ({"workers": 0}, ('workers must be a whole number of at least 1 (or "auto")', "got 0")),
        ({"workers": None}, ("workers must be a whole number of at least 1", "got None")),
        ({"workers": "many"}, ("workers must be a whole number", "got 'many'")),
        ({"workers": True}, ("workers must be", "got True")),
        ({"workers": 1.5}, ("workers must be a whole number", "got 1.5")),
        ({"threads": 0}, ("threads must be a whole number of at least 1, got 0",)),
        ({"threads": True}, ("threads must be a whole number of at least 1, got True",)),
        ({"block_size": 0}, ("block_size must be a whole number of at least 1 (or None)", "got 0")),
        ({"block_size": "4"}, ("block_size must be a whole number", "got '4'")),
        ({"replay": "yes"}, ("replay must be true or false", "got 'yes'")),
        ({"memory": -1}, ("memory, in gigabytes, must be a number in (0, 1e+06]", "got -1")),
        ({"memory": 0}, ("memory, in gigabytes, must be a number in (0, 1e+06]", "got 0")),
        ({"memory": float("inf")}, ("memory, in gigabytes, must be a number in (0, 1e+06]", "got inf")),
        ({"memory": float("nan")}, ("memory, in gigabytes, must be a number in (0, 1e+06]", "got nan")),
        ({"memory": "2"}, ("memory, in gigabytes, must be a number in (0, 1e+06]", "got '2'")),
        ({"memory": True}, ("memory, in gigabytes, must be a number in (0, 1e+06]", "got True")),
        ({"threads": 2, "workers": 2}, ("workers=2", "one thread each", "threads=2", "leave threads out")),
    ],
    ids=lambda value: " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_a_setting_that_cannot_be_says_what_was_given_and_what_is_allowed(settings: Any, parts: tuple[str, ...]):
    with pytest.raises(InputError) as error:
        EngineSettings(**settings)
    assert [part for part in parts if part not in str(error.value)] == [], str(error.value)


def test_the_same_run_beside_two_busy_programs_gives_the_same_bits():
    """Nothing is decided by a clock."""
    federation, module = classification([20] * 8), network()

    def trained() -> tuple[torch.Tensor, dict[str, object]]:
        result, _ = run("scaffold", federation, module, engine="auto", rounds=4, dtype=torch.float32)
        return result.x, result.engine

    alone = trained()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        beside = trained()
    finally:
        for program in busy:
            program.kill()
            program.wait()
    assert torch.equal(alone[0], beside[0])
    assert alone[1] == beside[1]
