"""A number of local steps that changes from round to round."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from driftless import Algorithm, InputError, LocalTraining
from driftless.algorithms import FedAvg
from driftless.config.describe import training_text
from driftless.config.resolution import resolve
from driftless.engine.batches import check_steps
from driftless.privacy import DifferentialPrivacy
from driftless.runs.run import resume as resume_run
from engine.problems import linear, regression, run
from runs.runs import AfterRound, assert_same_run, start

FEDERATION = regression([4, 7, 5])
STEPS = [4, 4, 2, 1, 1]


def training(steps: Any, **options: Any) -> LocalTraining:
    return LocalTraining(lr=0.1, steps=steps, batch_size=2, **options)


@pytest.mark.parametrize("engine", ["single", "block"])
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fedgbo", "mime", "adabest"])
def test_each_round_takes_its_own_number_of_steps(algorithm: str, engine: str):
    """As runs of one round with a number each, of which each begins where the one before ended."""
    result, records = run(algorithm, FEDERATION, linear(), local=training(STEPS[:4]), engine=engine, rounds=5)
    state, rows = None, []
    for t, steps in enumerate(STEPS, start=1):
        part, _ = run(algorithm, FEDERATION, linear(), local=training(steps), engine=engine, rounds=t, state=state)
        assert torch.equal(part.x, records[t - 1].x)
        state = part.state
        rows += [{name: value for name, value in row.items() if "seconds" not in name} for row in part.history]
    assert [{k: v for k, v in row.items() if "seconds" not in k} for row in result.history] == rows


class SeesSteps(FedAvg):
    """Records the number of steps that the server is told."""

    seen: list[float] = []  # noqa: RUF012

    def update(self, server, mean, r):
        self.seen.append(float(r.steps))
        return super().update(server, mean, r)


@pytest.mark.parametrize("private", [False, True])
def test_the_server_knows_the_number_of_the_round(private: bool):
    SeesSteps.seen.clear()
    algorithm: Algorithm = DifferentialPrivacy(SeesSteps(), noise_multiplier=1.0) if private else SeesSteps()
    run(algorithm, FEDERATION, linear(), local=training(STEPS[:4]), rounds=5, weighting="uniform")
    assert SeesSteps.seen[-5:] == STEPS  # a private server is tried once before the run


def test_the_examples_of_a_round_are_those_of_its_steps():
    local = LocalTraining(lr=0.1, steps=[4, 2, 1], batch_size=2, last_batch="bootstrap")
    result, _ = run("fedavg", FEDERATION, linear(), local=local, rounds=4)
    assert result.history["examples"] == [3 * 2 * steps for steps in (4, 2, 1, 1)]


@pytest.mark.parametrize("steps", [tuple(STEPS), np.array(STEPS), torch.tensor(STEPS), lambda t: STEPS[t - 1]])
@pytest.mark.parametrize("workers", [1, 2])
def test_any_sequence_and_a_function_give_the_bits_of_the_list(steps: Any, workers: int):
    given: dict[str, Any] = {"rounds": 5, "block_size": 1}
    expected, _ = run("scaffold", FEDERATION, linear(), local=training(STEPS), **given)
    result, _ = run("scaffold", FEDERATION, linear(), local=training(steps), workers=workers, **given)
    assert torch.equal(result.x, expected.x)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "local.steps is an empty list; give a number, or one for each round"),
        ([4, 0], "local.steps of round 2 must be a whole number of at least 1, got 0"),
        ([-1], "local.steps of round 1 must be a whole number of at least 1, got -1"),
        ([4, 2.5], "local.steps of round 2 must be a whole number"),
        ([4, True], "local.steps of round 2 must be a whole number"),
        ([[4]], "local.steps of round 1 must be a whole number"),
        (0, "local.steps must be a whole number of at least 1, got 0"),
        ("4", "local.steps must be a whole number"),
        (lambda t: 3 - t, "local.steps of round 3 must be a whole number of at least 1, got 0"),
        (lambda t: 4 / t, "local.steps of round 1 must be a whole number of at least 1, got 4.0"),
    ],
)
def test_steps_that_cannot_be_are_refused_with_their_round_before_the_first(steps: Any, message: str):
    rounds: list[object] = []
    with pytest.raises(InputError, match=message):
        run("fedavg", FEDERATION, linear(), local=training(steps), rounds=4, on_round=rounds.append)
    assert rounds == []


def test_the_minibatches_of_the_longest_round_must_fit_into_the_memory():
    with pytest.raises(InputError, match=r"1000000000 steps of 1000 examples.* use fewer local.steps"):
        check_steps(LocalTraining(steps=[1, 10**9, 2], batch_size=1000), FEDERATION.sizes)


def test_epochs_and_a_list_of_steps_are_both_given():
    with pytest.raises(InputError, match=r"local.epochs=2 and local.steps=\[4, 2\] are both given"):
        LocalTraining(epochs=2, steps=[4, 2])


def test_a_configuration_has_a_list_and_says_so():
    local = resolve(None, ["local.steps=[8, 4, 2]"]).config.local
    assert (local.steps, local.epochs) == ([8, 4, 2], None)
    assert training_text(training([8, 4, 2]), 10) == "8 to 2 steps of batches of 2, lr 0.1"
    assert training_text(training([8, 8]), 10) == "8 steps of batches of 2, lr 0.1"
    assert resolve(None, ["local.steps=none"]).config.local.steps is None


@pytest.mark.parametrize("steps", ["[3,3,3,2,2,1]", "my.py:falling"])
def test_a_killed_run_is_resumed_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: str):
    (tmp_path / "my.py").write_text("def falling(t):\n    return max(1, 5 - t)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    killed = AfterRound([5], lambda: shutil.copytree(whole, cut))
    stored = start(whole, "algorithm=scaffold", "epochs=none", f"local.steps={steps}", callbacks=[killed])
    assert len({row["examples"] for row in stored.rows}) > 2
    resume_run(cut)
    assert_same_run(whole, cut)
