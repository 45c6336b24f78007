"""Federations over files that are mapped to memory: the same bits as in memory, nothing read before it is used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from driftless import Federation, LocalTraining, simulate
from driftless.data import map_file, memory
from driftless.errors import InputError

CLIENTS, EACH = 12, 5
OWNER = np.repeat(np.arange(CLIENTS), EACH)


def arrays(dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(CLIENTS * EACH, 6)).astype(dtype), rng.integers(3, size=CLIENTS * EACH)


def by_numpy(folder: Path, inputs: np.ndarray, targets: np.ndarray) -> Federation:
    np.save(folder / "inputs.npy", inputs)
    return Federation.from_assignment(np.load(folder / "inputs.npy", mmap_mode="r"), targets, OWNER, CLIENTS)


def by_npy_file(folder: Path, inputs: np.ndarray, targets: np.ndarray) -> Federation:
    np.save(folder / "inputs.npy", inputs)
    np.save(folder / "targets.npy", targets)
    return Federation.from_assignment(map_file(folder / "inputs.npy"), map_file(folder / "targets.npy"), OWNER, CLIENTS)


def by_safetensors(folder: Path, inputs: np.ndarray, targets: np.ndarray) -> Federation:
    tensors = {"inputs": torch.from_numpy(inputs), "targets": torch.from_numpy(targets)}
    safetensors.torch.save_file(tensors, folder / "data.safetensors", {"made": "here"})
    data = map_file(folder / "data.safetensors")
    return Federation.from_assignment(data["inputs"], data["targets"], OWNER, CLIENTS)


WAYS = [by_numpy, by_npy_file, by_safetensors]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def trained(federation: Federation, dtype: torch.dtype) -> torch.Tensor:
    local = LocalTraining(lr=0.1, epochs=2, batch_size=2)
    result = simulate("adabest", federation, "logistic", rounds=3, cohort=4, local=local, dtype=dtype, progress=False)
    return result.x


@every_way
@pytest.mark.parametrize("stored", [np.float32, np.float64, np.float16], ids=lambda stored: stored.__name__)
def test_mapped_data_give_the_same_bits_as_data_in_memory(way: Callable[..., Federation], stored: Any, tmp_path: Path):
    inputs, targets = arrays(stored)
    mapped, in_memory = way(tmp_path, inputs, targets), Federation.from_assignment(inputs, targets, OWNER, CLIENTS)
    assert mapped.fingerprint == in_memory.fingerprint
    assert mapped.inputs.dtype == in_memory.inputs.dtype
    assert torch.equal(trained(mapped, torch.float32), trained(in_memory, torch.float32))


def test_floats_are_converted_batch_by_batch_to_what_they_were_converted_to_at_once():
    inputs, targets = arrays(np.float64)
    narrow = Federation.from_assignment(inputs.astype(np.float32), targets, OWNER, CLIENTS)
    wide = Federation.from_assignment(inputs, targets, OWNER, CLIENTS)
    assert torch.equal(trained(wide, torch.float32), trained(narrow, torch.float32))


@every_way
def test_what_is_written_to_mapped_data_does_not_reach_the_file(way: Callable[..., Federation], tmp_path: Path):
    inputs, targets = arrays()
    federation = way(tmp_path, inputs, targets)
    federation.inputs.zero_()
    assert np.array_equal(way(tmp_path, inputs, targets).inputs.numpy(), inputs)
    again = map_file(next(tmp_path.glob("inputs.npy" if way is not by_safetensors else "*.safetensors")))
    again = again if isinstance(again, torch.Tensor) else again["inputs"]
    assert np.array_equal(again.numpy(), inputs)


@pytest.mark.parametrize("part", [slice(3, 40), slice(1, None), slice(None)])
def test_a_slice_of_a_mapped_array_is_mapped_at_its_place(part: slice, tmp_path: Path):
    inputs = np.arange(30_000, dtype=np.float32).reshape(60, 500)
    np.save(tmp_path / "inputs.npy", inputs)
    mapped = np.load(tmp_path / "inputs.npy", mmap_mode="r")[part]
    federation = Federation.from_assignment(mapped, np.zeros(len(mapped)), np.zeros(len(mapped), int), 1)
    assert np.array_equal(federation.inputs.numpy(), inputs[part])


def test_other_views_of_a_mapped_array_are_copied(tmp_path: Path):
    inputs, targets = arrays()
    np.save(tmp_path / "inputs.npy", inputs)
    mapped = np.load(tmp_path / "inputs.npy", mmap_mode="r")
    for view, owner in ((mapped[::2], OWNER[::2]), (mapped[np.arange(60)], OWNER), (mapped.astype(">f4"), OWNER)):
        federation = Federation.from_assignment(view, targets[: len(view)], owner, CLIENTS)
        assert np.array_equal(federation.inputs.numpy(), np.asarray(view, dtype=np.float32))


PROGRAM = """
import sys
import numpy as np
import driftless
from driftless.data import map_file

def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

clients, each, width = 200, 50, 2500
owner = np.repeat(np.arange(clients), each)
local = driftless.LocalTraining(lr=0.1, epochs=1, batch_size=10)

def run(inputs, owner, clients):
    targets = np.arange(len(owner)) % 10
    federation = driftless.Federation.from_assignment(inputs, targets, owner, clients)
    driftless.simulate("fedavg", federation, "logistic", rounds=2, cohort=3, local=local, progress=False,
                       engine=driftless.EngineSettings(workers=1))
    return federation.fingerprint

run(np.zeros((30, width), np.float16), np.repeat(np.arange(3), 10), 3)  # what torch takes when it first computes
before = anonymous()
run(map_file(sys.argv[1]), owner, clients)
print(anonymous() - before)
"""


def test_training_on_mapped_data_takes_no_memory_of_their_size(tmp_path: Path):
    """50 MB in half precision, which would be 100 MB in float32; memory that the system could not take back."""
    values = np.random.default_rng(0).normal(size=(10_000, 2500)).astype(np.float16)
    np.save(tmp_path / "inputs.npy", values)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "inputs.npy")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 25e6


def test_data_that_must_be_sorted_and_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    inputs, targets = arrays()
    np.save(tmp_path / "inputs.npy", inputs)
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    mapped = np.load(tmp_path / "inputs.npy", mmap_mode="r")
    Federation.from_assignment(mapped, targets, OWNER, CLIENTS)
    with pytest.raises(InputError, match=r"in the order of their clients, need .* sort the files by client once"):
        Federation.from_assignment(mapped, targets, OWNER[::-1].copy(), CLIENTS)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_found_in_mapped_data_piece_by_piece(
    bad: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("driftless.data.array_checks.PIECE", 7)
    inputs, targets = arrays()
    inputs[EACH * 7 + 2, 1:3] = bad
    with pytest.raises(InputError, match="client 7 has 2 non-finite values"):
        by_numpy(tmp_path, inputs, targets)


def test_the_fingerprint_is_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch):
    whole = Federation.from_assignment(*arrays(), OWNER, CLIENTS).fingerprint
    monkeypatch.setattr("driftless.data.array_checks.PIECE", 7)
    assert Federation.from_assignment(*arrays(), OWNER, CLIENTS).fingerprint == whole


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("inputs.npy", None, "there is no file"),
        ("inputs.csv", b"1,2", r"cannot be mapped to memory; save the array as \.npy"),
        ("inputs.npy", b"no array", "cannot be mapped to memory"),
        ("inputs.npy", b"", "cannot be mapped to memory"),
        ("inputs.safetensors", b"no tensors at all", "cannot be read"),
    ],
)
def test_files_that_cannot_be_mapped_are_refused(name: str, content: bytes | None, complaint: str, tmp_path: Path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        map_file(tmp_path / name)


@pytest.mark.parametrize("array", [np.array(["a", "b"]), np.zeros((2, 2), ">f4"), np.zeros((4, 4), order="F")])
def test_arrays_that_torch_has_no_form_for_are_refused(array: np.ndarray, tmp_path: Path):
    np.save(tmp_path / "inputs.npy", array)
    with pytest.raises(InputError, match="cannot be mapped to memory; save it with"):
        map_file(tmp_path / "inputs.npy")


def test_a_safetensors_file_with_a_type_that_torch_cannot_use_is_refused(tmp_path: Path):
    header = json.dumps({"a": {"dtype": "U16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(InputError, match=r"'a' of .* has the type U16"):
        map_file(tmp_path / "a.safetensors")
