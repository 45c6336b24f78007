from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from driftless import Diverged, InputError, LocalTraining
from driftless.engine import choose, memory
from driftless.engine.choose import EngineSettings
from engine.own import Poisoned
from engine.problems import classification, linear, network, regression, run, seeded


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch):
    """What was measured in other tests is not remembered here."""
    monkeypatch.setattr(choose, "_measured", {})


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


@pytest.mark.parametrize("algorithm", ["fedavg", "mime"])
def test_auto_picks_one_of_the_two_and_says_which(algorithm: str):
    federation, module = regression([3, 5, 4]), linear()
    result, _ = run(algorithm, federation, module, engine="auto")
    kind = result.engine["kind"]
    assert kind in ("single", "block")
    same, _ = run(algorithm, federation, module, engine=kind, threads=result.engine["threads"])
    assert same.engine == result.engine
    assert torch.equal(same.x, result.x)


def test_the_engine_that_was_asked_for_is_the_one_that_runs():
    federation, module = regression([3, 5, 4]), linear()

    def engine(**options: Any) -> dict[str, object]:
        return run("fedavg", federation, module, threads=1, compile="off", **options)[0].engine

    rest = {"threads": 1, "workers": 1, "compile": "off"}
    assert engine(engine="single") == {"kind": "single", "block_size": 1, **rest}
    assert engine(engine="block") == {"kind": "block", "block_size": 3, **rest}
    assert engine(block_size=2) == {"kind": "block", "block_size": 2, **rest}
    assert engine(block_size=2, workers=2) == {"kind": "block", "block_size": 2, **rest, "workers": 2}


def test_a_cohort_of_one_needs_no_blocks():
    assert run("fedavg", regression([3, 5]), linear(), engine="auto", cohort=1)[0].engine["kind"] == "single"


@pytest.mark.parametrize("faster", ["single", "block"])
def test_auto_picks_the_faster_one(faster: str, monkeypatch: pytest.MonkeyPatch):
    prefer(faster, monkeypatch)
    assert run("fedavg", regression([3, 5, 4]), linear(), engine="auto")[0].engine["kind"] == faster


def prefer(faster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock for which one engine always takes longer; both still do their work."""

    def seconds(kind: str, facts: Any, model: Any, cohort: np.ndarray, *_: object) -> float:
        choose.try_out(choose.runner_of(kind, facts), model, cohort, 2, len(cohort))
        return 1e-9 if kind == faster else 2e-9

    monkeypatch.setattr(choose, "seconds_of_a_step", seconds)


def test_a_model_that_cannot_be_lifted_falls_back_to_single_clients():
    federation = regression([3, 5, 4])
    result, _ = run("fedavg", federation, Branching().double(), engine="auto", rounds=20)
    assert result.engine["kind"] == "single"
    assert result.history["train_loss"][-1] < result.history["train_loss"][0]


def test_what_was_measured_for_one_model_is_not_believed_of_another(monkeypatch: pytest.MonkeyPatch):
    """Both have four parameters and the same inputs, but only one can run in blocks."""
    prefer("block", monkeypatch)
    federation = regression([3, 5, 4])
    first, _ = run("fedavg", federation, linear(), engine="auto")
    second, _ = run("fedavg", federation, Branching().double(), engine="auto")
    assert (first.engine["kind"], second.engine["kind"]) == ("block", "single")


def test_a_class_that_was_rewritten_under_its_name_is_another_model(monkeypatch: pytest.MonkeyPatch):
    """As in a notebook, where a cell is changed and run again: name, text and size are the same."""

    def rewritten(branches: bool) -> nn.Module:
        class Own(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Linear(3, 1)

            def forward(self, inputs: Tensor) -> Tensor:
                outputs = self.layer(inputs)[:, 0]
                return outputs.abs() if branches and outputs.sum() > 0 else outputs

        return seeded(Own)

    prefer("block", monkeypatch)
    federation = regression([3, 5, 4])
    first, _ = run("fedavg", federation, rewritten(False), engine="auto")
    second, _ = run("fedavg", federation, rewritten(True), engine="auto")
    assert (first.engine["kind"], second.engine["kind"]) == ("block", "single")


def test_a_loss_that_cannot_be_lifted_falls_back_to_single_clients(monkeypatch: pytest.MonkeyPatch):
    def branching(outputs: Tensor, targets: Tensor) -> Tensor:
        error = (outputs - targets).abs().mean()
        return error if error > 0.1 else error**2

    prefer("block", monkeypatch)
    federation, module = regression([3, 5, 4]), linear()
    run("fedavg", federation, module, engine="auto")
    assert run("fedavg", federation, module, engine="auto", loss=branching)[0].engine["kind"] == "single"


def test_equal_runs_in_a_process_choose_alike(monkeypatch: pytest.MonkeyPatch):
    federation, module = regression([3, 5, 4]), linear()
    prefer("block", monkeypatch)
    first, _ = run("fedavg", federation, module, engine="auto")
    prefer("single", monkeypatch)
    second, _ = run("fedavg", federation, module, engine="auto")
    assert first.engine == second.engine
    assert torch.equal(first.x, second.x)


def test_measuring_does_not_change_the_run():
    federation, module = classification([4, 6, 5]), network(dropout=0.3)
    local = LocalTraining(lr=0.1, epochs=1, batch_size=3)
    auto, _ = run("fedavg", federation, module, engine="auto", local=local)
    kind = auto.engine["kind"]
    assert torch.equal(auto.x, run("fedavg", federation, module, engine=kind, local=local)[0].x)


def test_a_block_engine_that_was_asked_for_does_not_fall_back_silently():
    rounds = []
    with pytest.raises(InputError) as error:
        run("fedavg", regression([3, 5, 4]), seeded(Branching), engine="block", on_round=rounds.append)
    for part in ("engine='block'", "vmap", "Use engine='single' or 'auto'"):
        assert part in str(error.value)
    assert rounds == []


# --- threads


def clock(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> list[tuple[str, int]]:
    """A clock that gives, for "block_1", the seconds of a step of blocks with one thread; says what was measured."""
    asked: list[tuple[str, int]] = []

    def measured(kind: str, *_: object) -> float:
        asked.append((kind, torch.get_num_threads()))
        return 1e-9 * seconds[f"{kind}_{torch.get_num_threads()}"]

    monkeypatch.setattr(choose, "seconds_of_a_step", measured)
    return asked


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("alone", "threads"), [(0.5, 1), (0.96, 1), (0.98, 2), (2.0, 2)])
def test_one_thread_is_chosen_when_it_is_faster(alone: float, threads: int, monkeypatch: pytest.MonkeyPatch):
    """It has to be by 3 %: a measurement is not more exact than that."""
    asked = clock(monkeypatch, block_2=1.0, single_2=3.0, block_1=alone, single_1=0.1)
    during: list[int] = []
    result, _ = run(
        "fedavg",
        regression([3, 5, 4]),
        linear(),
        engine="auto",
        on_round=lambda _: during.append(torch.get_num_threads()),
    )
    assert (result.engine["kind"], result.engine["threads"]) == ("block", threads)
    assert sorted(asked) == [("block", 1), ("block", 2), ("single", 2)]
    assert during == [threads, threads]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_long_steps_have_use_for_all_threads_without_a_measurement(monkeypatch: pytest.MonkeyPatch):
    asked = clock(monkeypatch, block_2=1e8, single_2=2e8)
    result, _ = run("fedavg", regression([3, 5, 4]), linear(), engine="auto")
    assert result.engine["threads"] == 2
    assert sorted(asked) == [("block", 2), ("single", 2)]


@pytest.mark.usefixtures("two_threads")
def test_threads_are_measured_also_where_the_engine_is_given(monkeypatch: pytest.MonkeyPatch):
    asked = clock(monkeypatch, single_2=1.0, single_1=0.5)
    result, _ = run("fedavg", regression([3, 5, 4]), linear(), engine="single")
    assert (result.engine["threads"], asked) == (1, [("single", 2), ("single", 1)])


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_that_are_given_are_used_and_those_of_torch_come_back(threads: int, monkeypatch: pytest.MonkeyPatch):
    """Nothing is measured with another number of threads, or at all when only the threads were open."""
    asked = clock(monkeypatch, **{f"{kind}_{threads}": 1.0 for kind in ("block", "single")})
    federation, module, during = regression([3, 5, 4]), linear(), list[int]()
    for engine, kinds in (("auto", ["block", "single"]), ("block", []), ("single", [])):
        asked.clear()
        result, _ = run(
            "fedavg", federation, module, engine=engine, threads=threads, rounds=1,
            on_round=lambda _: during.append(torch.get_num_threads()),
        )  # fmt: skip
        assert result.engine["threads"] == threads
        assert sorted(asked) == [(kind, threads) for kind in kinds]
        assert torch.get_num_threads() == 2
    assert during == [threads] * 3


@pytest.mark.usefixtures("two_threads")
def test_the_threads_of_torch_come_back_after_every_kind_of_end():
    federation, module = regression([3, 5, 4, 6]), linear()

    def fail(_: object) -> None:
        assert torch.get_num_threads() == 1
        raise LookupError("in on_round")

    with pytest.raises(LookupError):
        run("fedavg", federation, module, threads=1, on_round=fail)
    assert torch.get_num_threads() == 2
    with pytest.raises(Diverged):
        run(Poisoned(rounds=(1, 2, 3)), federation, module, threads=1, rounds=4)
    assert torch.get_num_threads() == 2
    with pytest.raises(InputError, match="vmap"):
        run("fedavg", federation, seeded(Branching), threads=1)
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_workers_have_one_thread_each_without_measuring(monkeypatch: pytest.MonkeyPatch):
    asked = clock(monkeypatch)
    during: list[int] = []
    result, _ = run(
        "fedavg", regression([3, 5, 4]), linear(), workers=2, on_round=lambda _: during.append(torch.get_num_threads())
    )
    assert (result.engine["threads"], asked, during) == (1, [], [1, 1])
    assert torch.get_num_threads() == 2


# --- how many clients a block has


def size_of(monkeypatch: pytest.MonkeyPatch, clients: int, limit: float, **settings: Any) -> int:
    """The size of blocks for a cohort of so many clients when the memory is enough for `limit` of them."""
    one = 2**20
    monkeypatch.setattr(choose, "memory_of_a_client", lambda *_: one)
    monkeypatch.setattr(memory, "free", lambda: round(one * limit / memory.SHARE_OF_FREE))
    return choose.block_size(EngineSettings(**settings), None, clients)  # pyright: ignore


@pytest.mark.parametrize(
    ("clients", "limit", "workers", "size"),
    [
        (7, 100, 1, 7),  # all at once
        (10, 4, 1, 4),  # three blocks are needed: 4, 4, 2
        (9, 4, 1, 3),  # three blocks: 3, 3, 3 rather than 4, 4, 1
        (1000, 1e9, 1, 63),  # no block has more than 64: sixteen blocks
        (65, 1e9, 1, 33),  # 33, 32 rather than 64, 1
        (10, 0.5, 1, 1),  # one client is the least
        (10, 100, 2, 5),  # a block for each worker
        (10, 100, 3, 4),
        (10, 8, 2, 3),  # eight clients in both together, four in each: 3, 3, 3, 1, two blocks for each
        (3, 100, 8, 1),  # more workers than clients
        (1, 100, 2, 1),
    ],
)
def test_blocks_are_as_large_as_the_memory_allows_and_of_equal_size(clients, limit, workers, size, monkeypatch):
    assert size_of(monkeypatch, clients, limit, workers=workers) == size


def test_the_memory_that_is_given_counts_instead_of_what_is_free(monkeypatch: pytest.MonkeyPatch):
    assert size_of(monkeypatch, 12, 100, memory=4 / 1024) == 4
    assert size_of(monkeypatch, 12, 1, memory=4 / 1024) == 4
    assert size_of(monkeypatch, 12, 100, memory=4 / 1024, workers=2) == 2


@given(clients=st.integers(1, 300), limit=st.integers(1, 100), workers=st.integers(1, 9))
def test_blocks_fit_and_share_the_work_among_the_workers(clients: int, limit: int, workers: int):
    with pytest.MonkeyPatch.context() as patch:
        size = size_of(patch, clients, limit, workers=workers)
    blocks = -(-clients // size)
    assert 1 <= size <= max(1, min(choose.LARGEST_BLOCK, limit // workers))
    each = -(-blocks // workers)  # blocks of a worker
    assert size == -(-clients // min(clients, each * workers)), "not the smallest size for so many blocks"
    assert blocks >= workers or size == -(-clients // workers), "a worker is idle while another has more than its share"


def test_a_clients_memory_grows_with_its_model_its_batch_and_its_state():
    def bytes_(algorithm: str = "fedavg", hidden: int = 64, batch: int = 4) -> float:
        module = seeded(lambda: nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 1), nn.Flatten(0)))
        seen: list[float] = []
        with pytest.MonkeyPatch.context() as patch:
            original = choose.memory_of_a_client
            patch.setattr(choose, "memory_of_a_client", lambda *a: seen.append(original(*a)) or seen[-1])
            local = LocalTraining(lr=0.1, steps=1, batch_size=batch)
            run(algorithm, regression([64, 64]), module, local=local, rounds=1, threads=1)
        return seen[0]

    vector = 8 * (5 * 64 + 1)
    assert bytes_() >= 4 * vector  # x, y, the gradient and the next y
    assert bytes_("scaffold") >= bytes_() + vector  # its control
    assert bytes_(hidden=6400) > 80 * bytes_()
    assert bytes_(batch=64) >= bytes_() + 60 * 8 * 64


# --- settings that cannot be


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"kind": "blok"}, ("engine must be one of 'auto', 'block', 'single'", "'blok'")),
        ({"workers": 0}, ("workers must be a whole number of at least 1", "got 0")),
        ({"workers": None}, ("workers must be a whole number of at least 1", "got None")),
        ({"workers": True}, ("workers must be", "got True")),
        ({"workers": 1.5}, ("workers must be a whole number", "got 1.5")),
        ({"threads": 0}, ("threads must be a whole number of at least 1 (or None)", "got 0")),
        ({"block_size": 0}, ("block_size must be a whole number of at least 1 (or None)", "got 0")),
        ({"block_size": "4"}, ("block_size must be a whole number", "got '4'")),
        ({"compile": "maybe"}, ("compile must be one of 'auto', 'on', 'off'", "got 'maybe'")),
        ({"compile": True}, ("compile must be one of 'auto', 'on', 'off'", "got True")),
        ({"memory": -1}, ("memory must be a positive number of gigabytes (or None)", "got -1")),
        ({"memory": 0}, ("memory must be a positive number of gigabytes", "got 0")),
        ({"memory": float("inf")}, ("memory must be a positive number of gigabytes", "got inf")),
        ({"memory": float("nan")}, ("memory must be a positive number of gigabytes", "got nan")),
        ({"memory": "2"}, ("memory must be a positive number of gigabytes", "got '2'")),
        ({"memory": True}, ("memory must be a positive number of gigabytes", "got True")),
        ({"threads": 2, "workers": 2}, ("workers=2", "one thread each", "threads=2", "leave threads out")),
    ],
    ids=lambda value: " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_a_setting_that_cannot_be_says_what_was_given_and_what_is_allowed(settings: Any, parts: tuple[str, ...]):
    with pytest.raises(InputError) as error:
        EngineSettings(**settings)
    assert [part for part in parts if part not in str(error.value)] == [], str(error.value)


def test_one_thread_for_each_of_several_workers_may_be_said():
    assert EngineSettings(threads=1, workers=3).workers == 3
