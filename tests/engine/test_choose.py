from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from driftless import InputError, LocalTraining
from driftless.engine import choose
from driftless.engine.block import BlockRunner
from engine.problems import classification, linear, network, regression, run, seeded


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch):
    """What was measured in other tests is not remembered here."""
    monkeypatch.setattr(choose, "_choices", {})


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
    same, _ = run(algorithm, federation, module, engine=kind)
    assert same.engine == result.engine
    assert torch.equal(same.x, result.x)


def test_the_engine_that_was_asked_for_is_the_one_that_runs():
    federation, module = regression([3, 5, 4]), linear()
    assert run("fedavg", federation, module, engine="single")[0].engine == {"kind": "single", "block_size": 1}
    assert run("fedavg", federation, module, engine="block")[0].engine == {"kind": "block", "block_size": 3}
    assert run("fedavg", federation, module, block_size=2)[0].engine == {"kind": "block", "block_size": 2}


def test_a_cohort_of_one_needs_no_blocks():
    assert run("fedavg", regression([3, 5]), linear(), engine="auto", cohort=1)[0].engine["kind"] == "single"


@pytest.mark.parametrize("faster", ["single", "block"])
def test_auto_picks_the_faster_one(faster: str, monkeypatch: pytest.MonkeyPatch):
    prefer(faster, monkeypatch)
    assert run("fedavg", regression([3, 5, 4]), linear(), engine="auto")[0].engine["kind"] == faster


def prefer(faster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock for which one engine always takes longer; both still do their work."""

    def timed(runner, work, x) -> float:
        runner.gradients(work, x)
        return 1.0 if ("block" if isinstance(runner, BlockRunner) else "single") == faster else 2.0

    monkeypatch.setattr(choose, "_timed", timed)


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


def test_blocks_are_no_larger_than_the_cohort_the_limit_and_the_memory_allow():
    small, large = torch.zeros(10), torch.zeros(choose.BLOCK_MEMORY // (12 * 4 * 3))
    assert choose.block_size(7, small) == 7
    assert choose.block_size(1000, small) == choose.LARGEST_BLOCK
    assert choose.block_size(1000, large) == 3
    assert choose.block_size(1000, torch.zeros(1).expand(choose.BLOCK_MEMORY)) == 1


def test_a_block_engine_that_was_asked_for_does_not_fall_back_silently():
    rounds = []
    with pytest.raises(InputError) as error:
        run("fedavg", regression([3, 5, 4]), seeded(Branching), engine="block", on_round=rounds.append)
    for part in ("engine='block'", "vmap", "Use engine='single' or 'auto'"):
        assert part in str(error.value)
    assert rounds == []
