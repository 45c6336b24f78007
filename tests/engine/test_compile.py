"""Compiled steps: real ones compute the same, and stand-ins for them show when they are used."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import Graph, GraphModule

from driftless import Event, LocalTraining, Result
from driftless.engine import choose
from driftless.engine import compile as compiling
from driftless.engine.compile import CannotCompile
from driftless.engine.tree import leaves
from engine.problems import classification, linear, network, regression, run


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch):
    """What was measured in other tests is not remembered here."""
    monkeypatch.setattr(choose, "_measured", {})


def result_of(compile: str, **options: Any) -> Result:
    settings: dict[str, Any] = {
        "rounds": 4,
        "cohort": 4,
        "local": LocalTraining(lr=0.1, epochs=2, batch_size=3),
        "block_size": 2,
        "threads": 1,
        "compile": compile,
    }
    return run("scaffold", classification([9, 9, 9, 9, 9, 9]), network(), **{**settings, **options})[0]


def assert_same(one: Result, other: Result) -> None:
    for a, b in zip(leaves(one.state.server), leaves(other.state.server), strict=True):
        assert torch.equal(a, b)
    clients = sorted(one.state.clients.clients)
    assert clients == sorted(other.state.clients.clients)
    for a, b in zip(one.state.clients.rows(clients), other.state.clients.rows(clients), strict=True):
        assert torch.equal(a, b)


# --- real compilation


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own, when its compiler is imported
@pytest.mark.slow
def test_compiled_steps_reach_the_same_result_and_always_the_same_bits():
    """Within rounding of the plain ones; to the bit when repeated, continued, or shared among workers."""
    plain, compiled = result_of("off"), result_of("on")
    assert (plain.engine["compile"], compiled.engine["compile"]) == ("off", "on")
    assert compiled.events == []
    for one, other in zip(leaves(compiled.state.server), leaves(plain.state.server), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    assert_same(compiled, result_of("on"))
    first = result_of("on", rounds=2)
    assert_same(compiled, result_of("on", state=first.state))
    assert_same(compiled, result_of("on", workers=2))


WITHOUT = """
import torch
from driftless import Federation, LocalTraining, simulate
clients = [(torch.ones(4, 3), torch.arange(4) % 2)] * 2
local = LocalTraining(lr=0.1, steps=2)
result = simulate(
    "fedavg", Federation.from_clients(clients), torch.nn.Linear(3, 2), rounds=2, cohort=2, local=local, compile="on"
)
assert result.engine["compile"] == "off"
(event,) = result.events
print(event.what)
"""


def test_a_machine_without_a_compiler_is_told_what_to_install(tmp_path: Path):
    """In a process of its own: torch remembers which compiler it has found."""
    nowhere = {"CXX": "/no/such/compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], env={**os.environ, **nowhere}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    for part in ("compile=on", "no C++ compiler was found", "install g++ or clang", "CXX", "goes on without"):
        assert part in done.stdout


# --- stand-ins


def stand_in(monkeypatch: pytest.MonkeyPatch, factor: float = 1.0) -> list[int]:
    """Instead of compiling: the graph as it is, with its results multiplied. Returns how often which was called."""
    calls: list[int] = []

    def compiled(graph: Graph, constants: dict[str, Tensor], examples: list[Tensor]) -> Callable[..., Any]:
        used = {node.target for node in graph.nodes if node.op == "get_attr"}
        module = GraphModule({name: constants[name] for name in used}, graph)  # pyright: ignore
        number = len(calls)
        calls.append(0)

        def run(*arguments: Tensor) -> list[Tensor]:
            calls[number] += 1
            return [value * factor for value in module(*arguments)]

        return run

    monkeypatch.setattr(compiling, "compiled", compiled)
    return calls


def test_compiled_steps_are_the_ones_that_run(monkeypatch: pytest.MonkeyPatch):
    """Six local steps of both blocks in four rounds, and those of the trial before."""
    calls = stand_in(monkeypatch)
    result = result_of("on")
    assert len(calls) == 1
    assert calls[0] > 4 * 2 * 6
    assert_same(result, result_of("off"))
    assert not torch.equal((stand_in(monkeypatch, 1.001), result_of("on"))[1].x, result.x)


def test_one_client_after_the_other_is_compiled_too(monkeypatch: pytest.MonkeyPatch):
    calls = stand_in(monkeypatch)
    result = result_of("on", engine="single")
    assert (result.engine["kind"], result.engine["compile"], len(calls)) == ("single", "on", 1)
    assert calls[0] > 4 * 4 * 6


def test_without_a_compiler_a_run_goes_on_and_says_so(monkeypatch: pytest.MonkeyPatch):
    def missing(*_: object) -> Any:
        raise CannotCompile("no C++ compiler was found; install g++ or clang, or name one in CXX")

    monkeypatch.setattr(compiling, "compiled", missing)
    result = result_of("on")
    assert result.engine["compile"] == "off"
    said = "compile=on: no C++ compiler was found; install g++ or clang, or name one in CXX"
    assert result.events == [Event(0, f"{said}. The run goes on without compilation.")]
    assert_same(result, result_of("off"))


@pytest.mark.parametrize("setting", ["auto", "off"])
def test_a_short_run_is_not_compiled(setting: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiling, "compiled", lambda *_: pytest.fail("it was compiled"))
    result = result_of(setting)
    assert (result.engine["compile"], result.events) == ("off", [])


@pytest.mark.parametrize(("seconds", "expected"), [(0.89, "on"), (0.91, "off")])
def test_a_long_run_is_compiled_if_that_is_a_tenth_faster(seconds, expected, monkeypatch: pytest.MonkeyPatch):
    """A run is long by its number of rounds; the clock says what a step takes with and without."""
    calls = stand_in(monkeypatch)

    def timed(runner: Any, model: Any, cohort: Any, number: int) -> float:
        choose.try_out(runner, model, cohort[:number], 3, len(cohort))
        return 1e-3 * seconds if runner.replay.compiling else 1e-3

    monkeypatch.setattr(choose, "timed", timed)
    monkeypatch.setattr(choose, "COMPILING_PAYS", 1e-3 * 4 * 4 * 6 - 1e-6)  # just less than the run takes
    assert result_of("auto").engine["compile"] == expected
    assert len(calls) == 1
    monkeypatch.setattr(choose, "COMPILING_PAYS", 1e-3 * 4 * 4 * 6 + 1e-6)
    assert result_of("auto").engine["compile"] == "off"
    assert len(calls) == 1, "the run was not long enough to try"


def test_what_is_compiled_does_not_depend_on_what_came_before(monkeypatch: pytest.MonkeyPatch):
    """Cohorts of ever new sizes fill the memory of recordings; the first size, which is compiled, comes again at the
    end. A run that is continued there has forgotten all others, and must reach the same bits."""
    stand_in(monkeypatch, 1.001)
    cohorts = [[0, 1], *(list(range(n)) for n in range(3, 30)), [0, 1]]
    options = {"cohort": cohorts, "local": LocalTraining(lr=0.1, steps=2), "threads": 1, "compile": "on"}
    federation, module = regression([4] * 30), linear()
    options |= {"evaluate_every": 0, "block_size": 30}
    first, _ = run("fedavg", federation, module, rounds=len(cohorts) - 1, **options)
    rest, _ = run("fedavg", federation, module, rounds=len(cohorts), state=first.state, **options)
    whole, _ = run("fedavg", federation, module, rounds=len(cohorts), **options)
    assert torch.equal(whole.x, rest.x)
