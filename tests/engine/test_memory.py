"""How much memory a block takes is known before it runs, and a limit is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from driftless import LocalTraining
from driftless.engine import memory
from driftless.engine.graph.record import Function, Recording, record
from engine.problems import classification, linear, network, regression, run

N = 1000
VECTOR = 8 * N
"""Bytes of the vectors below."""


def total(f: Function, moving: int = 1, batch: int = 0, fixed: int = 0) -> int:
    """In vectors, of a call with so many vectors as arguments."""
    arguments = [[torch.ones(N, dtype=torch.float64) for _ in range(number)] for number in (moving, batch, fixed)]
    _, heard = record(f, *arguments)
    assert isinstance(heard, Recording)
    bytes_ = memory.total(heard)
    assert bytes_ % VECTOR == 0, f"{bytes_} bytes are not a number of vectors"
    return bytes_ // VECTOR


def test_arguments_are_counted_whether_they_are_used_or_not():
    """The caller holds them."""
    assert total(lambda moving, batch, fixed: [moving[0]]) == 1
    assert total(lambda moving, batch, fixed: [moving[0] + 1], moving=1, batch=2, fixed=3) == 7


def test_every_result_is_counted_since_all_are_alive_while_a_call_is_recorded():
    def chain(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        value = moving[0]
        for _ in range(10):
            value = value * 2
        return [value]

    assert total(lambda moving, batch, fixed: [(moving[0] + 1) * 2]) == 3
    assert total(chain) == 11


def test_views_are_counted_once():
    def views(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        x = moving[0].view(10, 100)
        half = x[:5].t()
        return [x.t(), half, moving[0].unsqueeze(0).expand(50, N)]

    assert total(views) == 1
    assert total(lambda moving, batch, fixed: [(moving[0] + 1).view(10, 100).t()]) == 2


def test_constants_are_counted_as_arguments_are():
    constant = torch.ones(N, dtype=torch.float64)
    assert total(lambda moving, batch, fixed: [moving[0] * 2 * 2 * constant]) == 5


def test_several_results_of_one_operation_are_counted_each():
    """values and indices, both of eight bytes an element."""
    assert total(lambda moving, batch, fixed: list(moving[0].view(N, 1).max(dim=1))) == 3


def test_bytes_are_those_of_the_dtype():
    _, heard = record(lambda moving, batch, fixed: [moving[0] > 0], [torch.ones(N)], [], [])
    assert isinstance(heard, Recording)
    assert memory.total(heard) == 4 * N + N


def test_what_is_free_is_positive_and_no_more_than_there_is():
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory.free() <= physical


@pytest.mark.parametrize(("limit", "used", "free"), [("5000", 2000, 3000), ("1000", 2000, 0), ("max", 2000, None)])
def test_the_limit_of_a_container_counts(limit: str, used: int, free: int | None, monkeypatch: pytest.MonkeyPatch):
    files = {"memory.max": f"{limit}\n", "memory.current": f"{used}\n", "meminfo": "MemAvailable:  8 kB\nOther: 1 kB\n"}
    monkeypatch.setattr(Path, "read_text", lambda self: files[self.name])
    assert memory.free() == (8 * 1024 if free is None else free)


def test_a_system_without_these_files_is_asked_in_another_way(monkeypatch: pytest.MonkeyPatch):
    def missing(self: Path) -> str:
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "read_text", missing)
    assert 0 < memory.free() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# --- runs with a limit


@pytest.mark.parametrize(("algorithm", "middle"), [("fedavg", 1e-5), ("scaffold", 1e-5), ("mime", 4e-5)])
def test_less_memory_means_smaller_blocks_and_the_same_result(algorithm: str, middle: float):
    federation, module = classification([4, 9, 6, 5, 7, 8, 3, 6]), network()
    local = LocalTraining(lr=0.1, epochs=2, batch_size=3)
    results, sizes = [], []
    for limit in (1.0, middle, 1e-9):
        result, _ = run(algorithm, federation, module, local=local, rounds=3, threads=1, memory=limit)
        sizes.append(result.engine["block_size"])
        results.append(result)
    assert sizes[0] == 8
    assert 1 < sizes[1] < 8
    assert sizes[2] == 1
    for result in results[1:]:
        torch.testing.assert_close(result.x, results[0].x, rtol=0, atol=1e-12)


def test_a_block_size_that_is_given_counts_more_than_the_memory():
    result, _ = run("fedavg", regression([3, 5, 4, 6]), linear(), threads=1, memory=1e-9, block_size=4)
    assert result.engine["block_size"] == 4


CASES = {
    "fedavg, long minibatches": ("fedavg", 32, 1024, 200, 1024, 0.08),
    "fedavg, many clients": ("fedavg", 80, 4, 300, 2, 0.015),
    "scaffold": ("scaffold", 16, 40, 300, 20, 0.02),
    "mimelite, full gradients": ("mimelite", 20, 2048, 200, 1, 0.06),
    "mime, full gradients": ("mime", 20, 1024, 200, 1, 0.06),
}
"""Algorithm, clients, examples of each, hidden units, examples of a minibatch, gigabytes."""
MEASURED = """
import json, multiprocessing, resource, sys
import torch
from torch import nn
from driftless import Federation, LocalTraining, simulate

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def run(algorithm, clients, examples, hidden, batch, **options):
    data = [(torch.randn(examples, 50), torch.arange(examples) % 5) for _ in range(clients)]
    federation = Federation.from_clients(data, classes=5)
    model = nn.Sequential(nn.Linear(50, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 5))
    local = LocalTraining(lr=0.01, steps=2, batch_size=batch)
    before = peak()
    result = simulate(
        algorithm, federation, model, rounds=1, cohort=clients, local=local, engine="block", threads=1, **options
    )
    return peak() - before, result.engine["block_size"]

def measured(algorithm, clients, *rest):
    *rest, limit = rest
    grown, size = pool.apply(run, (algorithm, clients, *rest), {"memory": limit})
    constant, _ = pool.apply(run, (algorithm, -(-clients // size), *rest), {"block_size": 1})
    return grown, constant, size

torch.manual_seed(0)
cases = json.loads(sys.argv[1])
for algorithm, *_ in cases.values():
    run(algorithm, 2, 4, 4, 2)  # loads what is loaded when it is needed
with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
    print(json.dumps({name: measured(*case) for name, case in cases.items()}))
"""
"""For each case, each time in a new fork: by how much a run has raised the peak of its process' memory; by how much a
run of as many blocks of one client each; and how many clients the blocks of the first had."""
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""What is freed is given back at once: the peak is what was in use, whatever the C library would keep."""


@pytest.fixture(scope="module")
def measured() -> dict[str, tuple[int, int, int]]:
    """One process for all cases: loading torch takes longer than the runs."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, json.dumps(CASES)],
        capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1", **GIVEN_BACK},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", CASES)
def test_a_run_takes_no_more_memory_than_it_may(name: str, measured: dict[str, tuple[int, int, int]]):
    """Beyond what is not of a block: its sum, the server, and what torch and Python need to run anything."""
    (grown, constant, size), (_, clients, *_, limit) = measured[name], CASES[name]
    said = f"{grown / 2**30:.3f} GB with blocks of {size}, {constant / 2**30:.3f} GB with blocks of one"
    assert grown - constant < limit * 2**30, said
    assert 1 < size < clients, "the case is too small: the limit does not matter"
