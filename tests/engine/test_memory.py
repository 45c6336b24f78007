"""The size of a block follows from the memory that it may take, and from the memory of a client's step."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from driftless import ALGORITHMS, EngineSettings, Federation, LocalTraining
from driftless.engine.check import try_block
from driftless.engine.flat import FlatModel
from driftless.engine.losses import default_loss
from driftless.engine.minibatches import Workload
from driftless.engine.settings import GIGABYTE, LARGEST_BLOCK, block_size
from engine.problems import classification, linear, network, regression, run

SHORT, LONG = 1e-6, 1.0
"""Seconds of a step: of which a block has as many clients as it may, or one."""


def test_a_block_has_as_many_clients_as_fit_into_the_memory():
    sizes = [block_size(memory, 0.1 * GIGABYTE, SHORT, cohort=16) for memory in (2.0, 0.85, 0.45, 0.25, 0.05)]
    assert sizes == [16, 8, 4, 2, 1]


def test_a_block_has_no_more_clients_than_its_steps_need_to_be_mostly_arithmetic():
    assert block_size(1000.0, 1.0, LONG, cohort=50) == 1
    assert block_size(1000.0, 1.0, SHORT, cohort=50) == 50
    assert block_size(1000.0, 1.0, SHORT, cohort=5 * LARGEST_BLOCK) <= LARGEST_BLOCK


@pytest.mark.parametrize("cohort", [1, 3, 10, 16, 100])
def test_blocks_are_of_nearly_equal_size_and_never_too_large(cohort: int):
    for fitting in range(1, cohort + 1):
        size = block_size(fitting + 0.5, GIGABYTE, SHORT, cohort)
        assert 1 <= size <= fitting


def bytes_of_a_client(algorithm: str, federation: Federation, training: LocalTraining) -> float:
    model, loss = FlatModel(network(), torch.float64), default_loss(federation.targets)
    trial = try_block(Workload(ALGORITHMS[algorithm](), model, loss, training, federation, 0))
    assert trial.problem is None
    return trial.bytes_of_a_client


def bytes_of_a_step(batch_size: int | None, examples: int = 300, algorithm: str = "fedavg") -> float:
    training = LocalTraining(lr=0.1, steps=1, batch_size=batch_size)
    return bytes_of_a_client(algorithm, classification([examples, 3]), training)


def test_the_memory_of_a_step_grows_with_the_minibatch():
    """Also beyond the minibatch that is tried; 6 hidden units and 4 inputs of 8 bytes are the least of an example."""
    ten, hundred, thousand = (bytes_of_a_step(n, examples=2000) for n in (10, 100, 1000))
    of_an_example = (hundred - ten) / 90
    assert 8 * (6 + 4) < of_an_example < 8 * (6 + 4) * 20
    assert thousand == pytest.approx(hundred + 900 * of_an_example, rel=0.01)
    assert bytes_of_a_step(None, examples=1000) == pytest.approx(thousand, rel=0.01)


def test_full_gradients_need_the_memory_of_their_chunks():
    assert bytes_of_a_step(10, 300, "mimelite") == pytest.approx(bytes_of_a_step(300), rel=0.01)
    assert bytes_of_a_step(10, 5000, "mimelite") == pytest.approx(bytes_of_a_step(1024), rel=0.01)


def test_two_gradients_in_a_step_need_twice_the_memory():
    assert bytes_of_a_step(300, 3, "mime") == pytest.approx(2 * bytes_of_a_step(300, 3), rel=0.01)


# --------------------------------------------------------------------------------------------------------------- runs


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "mime"])
def test_less_memory_means_smaller_blocks_and_the_same_result(algorithm: str):
    federation, module = classification([4, 9, 6, 5, 7, 8, 3, 6]), network()
    local = LocalTraining(lr=0.1, epochs=2, batch_size=3)
    of_a_client = bytes_of_a_client(algorithm, federation, local) / GIGABYTE
    results, sizes = [], []
    for limit in (8.1, 4.1, 1.1, 0.1):
        engine = EngineSettings("block", memory=limit * of_a_client)
        result, _ = run(algorithm, federation, module, local=local, rounds=3, engine=engine)
        sizes.append(result.engine["block_size"])
        results.append(result)
    assert sizes == [8, 4, 1, 1]
    for result in results[1:]:
        torch.testing.assert_close(result.x, results[0].x, rtol=0, atol=1e-12)


def test_a_block_size_that_is_given_counts_more_than_the_memory():
    engine = EngineSettings("block", block_size=4, memory=1e-9)
    result, _ = run("fedavg", regression([3, 5, 4, 6]), linear(), engine=engine)
    assert result.engine["block_size"] == 4


CASES = {
    "long minibatches": ("fedavg", 256, 256, 0.04),
    "states of clients": ("scaffold", 256, 256, 0.04),
    "two gradients in a step": ("mime", 256, 256, 0.08),
    "full gradients": ("mimelite", 1024, 1, 0.15),
}
"""Algorithm, examples of a client, examples of a minibatch, gigabytes."""
CLIENTS = 16
MEASURED = """
import json, multiprocessing, resource, sys
import torch
from torch import nn
from driftless import EngineSettings, Federation, LocalTraining, simulate

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def run(algorithm, examples, batch_size, clients, **settings):
    data = [(torch.randn(examples, 1000), torch.arange(examples) % 5) for _ in range(clients)]
    federation = Federation.from_clients(data, classes=5)
    model = nn.Sequential(*(nn.Tanh() for _ in range(6)), nn.Linear(1000, 5))  # much memory, little arithmetic
    local = LocalTraining(lr=0.01, steps=2, batch_size=batch_size)
    before = peak()
    engine = EngineSettings("block", workers=1, **settings)
    result = simulate(algorithm, federation, model, rounds=1, cohort=clients, local=local, engine=engine)
    return peak() - before, result.engine["block_size"]

def measured(algorithm, examples, batch_size, limit):
    given = (algorithm, examples, batch_size)
    grown, size = pool.apply(run, (*given, CLIENTS), {"memory": limit})
    constant, _ = pool.apply(run, (*given, -(-CLIENTS // size)), {"block_size": 1})
    return grown, constant, size

CLIENTS, cases = int(sys.argv[1]), json.loads(sys.argv[2])
torch.manual_seed(0)
for algorithm, *_ in cases.values():
    run(algorithm, 4, 2, 2)  # loads what is loaded when it is needed
with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
    print(json.dumps({name: measured(*case) for name, case in cases.items()}))
"""
"""For each case, each time in a new fork: by how much a run has raised the peak of its process' memory; by how much a
run of as many blocks of one client each; and how many clients the blocks of the first had."""
FREED_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""The peak is what was in use, whatever the C library would keep."""


@pytest.fixture(scope="module")
def measured() -> dict[str, tuple[int, int, int]]:
    """One process for all cases: loading torch takes longer than the runs."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(CLIENTS), json.dumps(CASES)],
        capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1", **FREED_AT_ONCE},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", CASES)
def test_a_block_takes_no_more_memory_than_it_may(name: str, measured: dict[str, tuple[int, int, int]]):
    """Beyond what is not of a block: its sum, the server, and what torch and Python need to run anything."""
    (grown, constant, size), limit = measured[name], CASES[name][-1]
    assert grown - constant < limit * GIGABYTE, f"{grown / GIGABYTE:.3f} GB, blocks of one {constant / GIGABYTE:.3f} GB"
    assert grown - constant > limit * GIGABYTE / 10, "the estimate is far too high"
    assert 1 < size < CLIENTS, f"blocks of {size}: the limit does not matter in this case"
