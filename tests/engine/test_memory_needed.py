"""What a run needs is known before it starts; what cannot fit is refused."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from driftless import EngineSettings, Federation, LocalTraining, Result, simulate
from driftless.data.cohorts import Constant, Cyclic, Doubling, Explicit, FromFunction, Schedule
from driftless.engine import memory_needed
from driftless.engine.memory_needed import MemoryNeeded, check_fits, chosen_store, participants, size_text
from driftless.engine.simulation import Simulation
from driftless.errors import InputError
from driftless.simulate import prepare
from engine.problems import classification

GB = 10**9
P = 15
"""Parameters of the logistic model of 4 features and 3 classes."""
Usage = namedtuple("Usage", "total used free")


def prepared(
    algorithm: str, rounds: int = 5, cohort: Any = 2, inference: str | None = None, **engine: Any
) -> Simulation:
    return prepare(
        algorithm, classification([4] * 12), "logistic", rounds=rounds, cohort=cohort, local=LocalTraining(steps=1),
        loss=None, weighting=None, seed=0, engine=EngineSettings(**engine), dtype=torch.float32, evaluate_every=0,
        server=None, inference=inference,
    )  # fmt: skip


def run(algorithm: str = "adabest", **engine: Any) -> Result:
    local = LocalTraining(lr=0.1, steps=2, batch_size=2)
    return simulate(
        algorithm, classification([4] * 12), "logistic", rounds=5, cohort=4, local=local, inference="clients",
        engine=EngineSettings(**engine), progress=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("schedule", "most"),
    [
        (Constant(10), 50),
        (Constant(0.5), 1000),
        (Cyclic(300), 1000),
        (Doubling(10, 2, 40), 10 + 10 + 20 + 20 + 40),
        (Explicit([[1], [1, 2], [3], [4], [5, 6]]), 7),
        (FromFunction(lambda t, clients, rng: [0]), 1000),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Schedule) else str(value),
)
def test_no_more_clients_take_part_than_there_are_places(schedule: Schedule, most: int):
    assert participants(schedule, 1000, 5) == most


def test_the_bytes_of_client_state_are_those_of_its_leaves():
    assert prepared("fedavg").memory_needed.rows == 0
    assert prepared("adabest").memory_needed == MemoryNeeded(
        10, 10 * (4 * P + 4), *prepared("adabest").memory_needed[2:]
    )
    assert prepared("adabest", rounds=50).memory_needed.rows == 12 * (4 * P + 4)
    assert prepared("adabest", inference="clients").memory_needed.rows == 10 * (8 * P + 4)
    assert prepared("adabest", store_dtype="bfloat16").memory_needed.rows == 10 * (2 * P + 4)


def test_the_estimate_is_what_the_rows_take():
    simulation, result = prepared("scaffold", rounds=5, cohort=4, inference="clients"), run("scaffold")
    stored = [result.state.clients, result.state.models.store]
    held = sum(row.nbytes for store in stored for row in store.rows(store.clients))
    assert held / len(stored[0]) == simulation.memory_needed.rows / simulation.memory_needed.clients


def test_auto_is_memory_up_to_half_of_what_is_free(monkeypatch: pytest.MonkeyPatch):
    needed = MemoryNeeded(10, rows=3 * GB, round=GB, block=0)
    for free, store in ((8 * GB, "memory"), (7 * GB, "disk"), (None, "memory")):
        monkeypatch.setattr(memory_needed, "free_memory", lambda free=free: free)
        assert chosen_store("auto", needed) == store
        assert [chosen_store(given, needed) for given in ("memory", "disk")] == ["memory", "disk"]
    monkeypatch.setattr(memory_needed, "free_memory", lambda: 0)
    assert chosen_store("auto", needed._replace(rows=0)) == "memory", "there is nothing to store"


@pytest.mark.parametrize(
    ("store", "free", "disk", "checkpoints", "complaint"),
    [
        (
            "memory",
            3 * GB,
            99 * GB,
            False,
            r"3\.0 GB of memory are free; set engine.store='disk' or engine.store_dtype",
        ),
        ("disk", GB // 2, 99 * GB, False, r"0\.5 GB of memory are free; use a smaller cohort"),
        ("disk", 9 * GB, 2 * GB, False, r"3\.0 GB for client state \(10 clients\), and 2\.0 GB are free .*\(TMPDIR\)"),
        (
            "disk",
            9 * GB,
            8 * GB,
            True,
            r"9\.0 GB for client state and its checkpoints .*store_dtype='bfloat16'.*output",
        ),
        ("memory", 9 * GB, 5 * GB, True, r"6\.0 GB for checkpoints of client state"),
    ],
)
def test_what_cannot_fit_is_refused_with_what_to_change(
    store: str, free: int, disk: int, checkpoints: bool, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    needed = MemoryNeeded(10, rows=3 * GB, round=GB, block=0)
    monkeypatch.setattr(memory_needed, "free_memory", lambda: free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, disk))
    with pytest.raises(InputError, match=complaint):
        check_fits(store, needed, tmp_path / "not" / "there", checkpoints=checkpoints)
    monkeypatch.setattr(memory_needed, "free_memory", lambda: 20 * GB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 20 * GB))
    check_fits(store, needed, tmp_path, checkpoints=checkpoints)


def test_simulate_refuses_what_cannot_fit_before_any_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 100))
    with pytest.raises(InputError, match="100 bytes are free on the disk"):
        run(store="disk")
    run(store="memory")


@pytest.mark.parametrize(
    ("size", "text"),
    [(16_320_000_000, "16 GB"), (500_000_000, "0.5 GB"), (31_400, "31 KB"), (9_960, "10.0 KB"), (12, "12 bytes")],
)
def test_sizes_are_short(size: int, text: str):
    assert size_text(size) == text


# ------------------------------------------------------------------------------------------------------- the two stores


def values_of(result: Result) -> list[torch.Tensor]:
    stores = [result.state.clients, result.state.models.store]
    return [result.x, result.inference, *(row for store in stores for row in store.rows(store.clients))]


@pytest.mark.parametrize("algorithm", ["adabest", "scaffold", "feddyn"])
@pytest.mark.parametrize("store_dtype", [None, "bfloat16"])
def test_where_client_state_is_kept_does_not_change_a_bit(algorithm: str, store_dtype: str | None):
    expected = run(algorithm, store="memory", workers=1, store_dtype=store_dtype, block_size=2)
    vectors = expected.state.clients.rows(expected.state.clients.clients)[0]
    assert vectors.dtype == (torch.float32 if store_dtype is None else torch.bfloat16)
    for workers in (1, 2):
        found = run(algorithm, store="disk", workers=workers, store_dtype=store_dtype, block_size=2)
        assert found.engine["store"] == "disk"
        for one, other in zip(values_of(found), values_of(expected), strict=True):
            assert one.dtype == other.dtype
            assert torch.equal(one, other)


def test_half_the_precision_changes_the_bits_and_little_else():
    whole, half = run("scaffold"), run("scaffold", store_dtype="bfloat16")
    assert not torch.equal(whole.x, half.x)
    assert torch.allclose(whole.x, half.x, atol=0.05)


def test_the_mean_of_all_models_is_that_of_the_models_as_they_are_stored():
    """Added up from differences: what was rounded when it was stored must be taken off as it was stored."""
    result = run("fedavg", store_dtype="bfloat16")
    models = result.state.models
    assert models is not None
    expected = models.store.get(range(12), (models._x0,))[0].double().mean(0)
    assert torch.allclose(models.mean().double(), expected, atol=1e-7)


def test_a_run_on_disk_continues_from_its_state():
    federation, local = classification([4] * 12), LocalTraining(lr=0.1, steps=2, batch_size=2)
    settings: dict[str, Any] = {"cohort": 4, "local": local, "progress": False}

    def play(rounds: int, store: str, state: Any = None) -> Result:
        engine = EngineSettings(store=store)
        return simulate("adabest", federation, "logistic", rounds=rounds, engine=engine, state=state, **settings)

    whole, half = play(6, "memory"), play(3, "disk")
    assert torch.equal(play(6, "disk", half.state).x, whole.x)
    assert torch.equal(play(6, "memory", half.state).x, whole.x), "the state was not changed by being continued"


@pytest.mark.parametrize(("name", "value"), [("store", "ram"), ("store", None), ("store_dtype", "float16")])
def test_other_stores_are_refused(name: str, value: Any):
    with pytest.raises(InputError, match=f"{name} must be one of"):
        EngineSettings(**{name: value})


def test_a_million_clients_cost_a_run_no_loop_over_them():
    """Also the state of clients far apart: what is stored depends on who took part."""
    clients = 10**6
    inputs = np.broadcast_to(np.float32(1.0), (clients, 2))
    federation = Federation.from_assignment(inputs, np.arange(clients) % 2, np.arange(clients), clients)
    result = simulate(
        "adabest", federation, "logistic", rounds=3, cohort=5, local=LocalTraining(steps=1, batch_size=1),
        evaluate_every=0, progress=False, engine=EngineSettings(store="disk"),
    )  # fmt: skip
    assert len(result.state.clients) == 15
    assert max(result.state.clients.clients) > clients / 2
