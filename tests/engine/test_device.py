"""Every tensor is made on the device of its input; precision is that of forward and backward passes only."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from driftless import ALGORITHMS, Federation, InputError, LocalTraining, Result, simulate
from driftless.engine import device as devices
from driftless.engine.device import as_device, data_bytes
from engine.problems import classification, network, run

CPU = torch.device("cpu")
TESTS = Path(__file__).parents[1]


@pytest.fixture
def default_device_meta() -> Iterator[None]:
    """A tensor that is made without a device has no values, and fails where it meets those of the run."""
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


def trained(engine: str, algorithm: Any = "fedavg", **options: Any) -> Result:
    with torch.device("cpu"):
        federation, model = classification([3, 5, 4]), network(dropout=0.2)
    local = None if algorithm == "fedsgd" else LocalTraining(lr=0.05, batch_size=2)
    settings = {"rounds": 2, "cohort": 2, "local": local, "device": "cpu", "engine": engine}
    return simulate(algorithm, federation, model, **{**settings, **options})


@pytest.mark.parametrize("engine", ["single", "block"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_algorithm_and_no_engine_makes_a_tensor_on_the_default_device(default_device_meta, algorithm, engine):
    assert trained(engine, algorithm).x.isfinite().all()


@pytest.mark.parametrize(
    "options",
    [
        {"inference": "clients"},
        {"metrics": ["f1"]},
        {"engine": "auto", "dtype": torch.float64},
        {"dtype": torch.bfloat16},
    ],
    ids=["clients' models", "metrics", "double", "bfloat16"],
)
def test_nor_does_anything_else_of_a_run(default_device_meta, options: dict[str, Any]):
    assert trained(**{"engine": "block", **options}).x.isfinite().all()


def test_augmented_images_do_not_need_the_default_device(default_device_meta):
    with torch.device("cpu"):
        images = torch.rand(8, 1, 6, 6)
        federation = Federation.from_assignment(images, torch.arange(8) % 2, [0] * 4 + [1] * 4)
        model = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    local = LocalTraining(lr=0.1, batch_size=2, augment="crop-flip")
    for engine in ("single", "block"):
        simulate("fedavg", federation, model, rounds=1, cohort=2, local=local, engine=engine, device="cpu")


@pytest.mark.skipif("DRIFTLESS_EMULATED" not in os.environ, reason="takes two minutes; make soak")
@pytest.mark.timeout(1200)
def test_an_accelerator_that_is_emulated_gives_the_bits_of_the_cpu(tmp_path: Path):
    paths = {"PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])}
    words = [sys.executable, "-m", "engine.emulated.compare", str(tmp_path)]
    done = subprocess.run(words, env={**os.environ, **paths}, capture_output=True, text=True, cwd=TESTS)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * (len(ALGORITHMS) + 6)
    assert [line for line in lines if not line.endswith(": equal")] == []


# ------------------------------------------------------------------------------------------------------ which device


@pytest.mark.parametrize("wrong", ["gpu", "cuda:x", 0, None, "meta", ["cpu"]])
def test_what_is_no_device_is_refused(wrong: Any):
    with pytest.raises(InputError, match="it must be 'auto', 'cpu', 'cuda'"):
        trained("single", device=wrong)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_not_there_is_refused_with_what_is(name: str):
    with pytest.raises(InputError, match=r"no such accelerator here \(none\); use 'cpu' or 'auto'"):
        trained("single", device=name)


def test_auto_takes_an_accelerator_if_there_is_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    assert as_device("auto") == torch.device("cuda", 0)
    assert as_device("cpu") == CPU
    assert as_device("cuda:1") == torch.device("cuda", 1)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert as_device("auto") == as_device("cuda") == torch.device("cuda", 1)
    with pytest.raises(InputError, match="2 of type 'cuda'"):
        as_device("cuda:2")


def test_data_stay_in_main_memory_if_they_do_not_fit(monkeypatch: pytest.MonkeyPatch):
    federation = classification([3, 5])
    size = data_bytes(federation)
    assert size == 8 * (8 * 4 + 8) + 8 * (3 * 4 + 3)  # those of the clients, and the first client's for the test
    monkeypatch.setattr(torch.accelerator, "get_memory_info", lambda device: (2 * size - 1, 0))
    same, (said,) = devices.placed(federation, torch.device("meta"))
    assert same is federation
    assert "stay in main memory" in said
    monkeypatch.setattr(torch.accelerator, "get_memory_info", lambda device: (2 * size, 0))
    there, (said,) = devices.placed(federation, torch.device("meta"))
    assert {there.targets.device.type, there.inputs.device.type} == {"meta"}  # pyright: ignore
    assert "are on meta" in said


# --------------------------------------------------------------------------------------------------------- precision


class Watched(nn.Module):
    """Notes the type of what passes through."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.layer(inputs)
        SEEN.add((self.training, outputs.dtype))
        return outputs


SEEN: set[tuple[bool, torch.dtype]] = set()


@pytest.mark.parametrize("engine", ["single", "block"])
def test_bfloat16_is_for_training_passes_and_everything_else_is_float32(engine: str):
    SEEN.clear()
    result, records = run("scaffold", classification([3, 5, 4]), Watched(), dtype=torch.bfloat16, engine=engine)
    assert {(True, torch.bfloat16), (False, torch.float32)} == SEEN
    assert result.x.dtype == records[-1].aggregate.dtype == torch.float32


def test_bfloat16_changes_the_result_by_its_rounding_and_both_engines_agree():
    federation, model = classification([30, 50, 40]), network()
    full = run("adabest", federation, model, dtype=torch.float32)[0].x
    single, block = (
        run("adabest", federation, model, dtype=torch.bfloat16, engine=e)[0].x for e in ("single", "block")
    )
    off = (single - full).abs().max() / full.abs().max()
    assert 1e-6 < off < 1e-2
    assert (single - block).abs().max() / full.abs().max() < 1e-2


def test_replaying_under_bfloat16_is_the_same_bits():
    federation, model = classification([30, 50, 40]), network()
    options: dict[str, Any] = {"dtype": torch.bfloat16, "local": LocalTraining(lr=0.1, steps=9, batch_size=4)}
    replayed, written = (run("scaffold", federation, model, replay=on, **options)[0].x for on in (True, False))
    assert torch.equal(replayed, written)
