"""evaluate.cohort: the model that a round sends out, on the training data of the clients that get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import vector_to_parameters

from driftless import EvaluationSettings, Faults, Federation, LocalTraining, Result
from driftless.algorithms import FedAvg
from driftless.engine import evaluate
from driftless.engine.history import Record
from engine.problems import classification, linear, network, regression, run, seeded, vector

ON = EvaluationSettings(cohort=True)
SIZES = [5, 9, 3, 7, 4, 8]


def played(algorithm: Any = "fedavg", **options: Any) -> tuple[Result, list[Record]]:
    settings: dict[str, Any] = {"rounds": 4, "cohort": 3, "evaluation": ON}
    return run(algorithm, classification(SIZES), network(dropout=0.3), **{**settings, **options})


def timeless(result: Result) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if "seconds" not in name} for row in result.history]


@torch.no_grad()
def plain(x: Tensor, module: nn.Module, federation: Federation, clients: tuple[int, ...]) -> tuple[float, float]:
    """Accuracy and loss over all examples of the clients, by a loop that knows nothing of the engine."""
    module.eval()
    vector_to_parameters(x, module.parameters())
    right, loss, number = 0, 0.0, 0
    for client in clients:
        inputs, labels = federation.client(client)
        assert isinstance(inputs, Tensor)
        for example, label in zip(inputs.to(x), labels, strict=True):
            outputs = module(example[None])
            right += int(outputs.argmax()) == int(label)
            loss += float(F.cross_entropy(outputs, label[None]))
            number += 1
    return right / number, loss / number


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("engine", ["single", "block"])
def test_it_is_what_a_plain_loop_finds_for_the_model_that_was_sent(engine: str, workers: int, monkeypatch):
    monkeypatch.setattr(evaluate, "EVALUATION_BATCH", 4)  # several batches, of which no client's are one
    faults = Faults(dropout=0.3)
    result, records = played("scaffold", engine=engine, workers=workers, block_size=1, faults=faults, rounds=6)
    sent = [vector(network()), *(record.x for record in records)]
    assert len({record.cohort for record in records}) > 1
    for x, record in zip(sent, records, strict=False):
        accuracy, loss = plain(x, network(dropout=0.3), classification(SIZES), record.cohort)
        row = result.history[record.round - 1]
        assert row["cohort_accuracy"] == pytest.approx(accuracy, rel=1e-12)
        assert row["cohort_loss"] == pytest.approx(loss, rel=1e-12)


def test_images_are_seen_as_they_are_and_in_the_type_of_the_run():
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(24, 1, 8, 8, generator=generator, dtype=torch.float64), torch.arange(24) % 3
    federation = Federation.from_assignment(images, labels, [i // 6 for i in range(24)])
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    local = LocalTraining(lr=0.1, steps=2, batch_size=3, augment="crop-flip")
    with_it, _ = run("fedavg", federation, model, evaluation=ON, local=local, dtype=torch.float32)
    accuracy, loss = plain(vector(model), nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), federation, (0, 1, 2, 3))
    assert with_it.history["cohort_accuracy"][0] == pytest.approx(accuracy)
    assert with_it.history["cohort_loss"][0] == pytest.approx(loss, rel=1e-5)


def test_regression_has_a_loss_alone():
    federation = regression([5, 9, 3])
    result, _ = run("fedavg", federation, linear(), evaluation=ON)
    inputs, targets = federation.inputs, federation.targets
    expected = 0.5 * (linear()(inputs) - targets).square().mean()
    assert result.history["cohort_loss"][0] == pytest.approx(expected.item())
    assert {"cohort_accuracy", "failure"}.isdisjoint(result.history.columns)


@pytest.mark.parametrize("algorithm", ["fedavg", "adabest", "mime"])
def test_it_changes_nothing_of_the_run_and_is_not_measured_unless_it_is_asked_for(algorithm: str):
    (with_it, _), (without, _) = played(algorithm), played(algorithm, evaluation=None)
    assert torch.equal(with_it.x, without.x)
    ours = {"cohort_accuracy", "cohort_loss"}
    assert ours.isdisjoint(without.history.columns)
    assert {*with_it.history.columns} == {*without.history.columns, *ours}
    for name in set(without.history.columns) - {"failure", "seconds", "evaluation_seconds"}:
        assert with_it.history[name] == without.history[name]


def test_the_number_of_workers_does_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(evaluate, "EVALUATION_BATCH", 4)
    one, two, three = (timeless(played("scaffold", workers=w, block_size=1)[0]) for w in (1, 2, 3))
    assert one == two == three


def test_it_is_measured_in_every_round_however_often_the_test_set_is():
    result, _ = played(evaluate_every=0)
    assert len(result.history["cohort_accuracy"]) == len(result.history["evaluation_seconds"]) == 4
    assert "test_accuracy" not in result.history.columns
    result, _ = played(evaluate_every=3, evaluation=EvaluationSettings(cohort=True, monitor="cohort_accuracy"))
    assert len(result.history["cohort_accuracy"]) == 4
    assert len(result.history["test_accuracy"]) == 2


def test_a_round_without_clients_has_none():
    result, records = played(cohort=[[0], [1], [2]], rounds=3, faults=Faults(dropout=0.5), seed=3)
    missing = [not record.cohort for record in records]
    assert set(missing) == {True, False}
    assert ["cohort_loss" not in row for row in result.history] == missing


# ------------------------------------------------------------------------------------------------------- failures


@dataclass(frozen=True)
class Breaks(FedAvg):
    """FedAvg whose server turns the model around in some rounds."""

    rounds: tuple[int, ...] = ()

    def update(self, server, mean, r):
        new = super().update(server, mean, r)
        turned = torch.isin(r.t, torch.tensor(self.rounds, dtype=r.t.dtype))
        return new._replace(x=torch.where(turned, -new.x, new.x))


def broken(**options: Any) -> Result:
    """Clients who take so many steps that they repair whatever they are sent."""
    federation = classification([30] * 4)
    settings: dict[str, Any] = {"local": LocalTraining(lr=0.3, steps=150, batch_size=None), "rounds": 7, **options}
    return run(Breaks(rounds=(4,)), federation, seeded(lambda: nn.Linear(4, 3)), **settings)[0]


def test_a_collapse_of_the_model_that_local_training_hides_is_a_failure():
    seen, hidden = broken(evaluation=ON).history, broken().history
    assert hidden["failure"] == [0] * 7
    assert min(hidden["train_accuracy"]) > 0.65
    assert seen["failure"] == [0, 0, 0, 0, 1, 0, 0], "the model of round 4 is sent out in round 5"
    accuracies = seen["cohort_accuracy"]
    assert accuracies[4] <= accuracies[3] / 2
    assert seen["train_accuracy"] == hidden["train_accuracy"]


@pytest.mark.parametrize("rounds", [1, 4, 5])
def test_a_run_that_is_continued_has_the_same_rows_and_failures(rounds: int):
    whole, first = broken(evaluation=ON), broken(evaluation=ON, rounds=rounds)
    rest = broken(evaluation=ON, state=first.state)
    assert timeless(first) + timeless(rest) == timeless(whole)


def test_accuracies_of_different_models_are_not_compared_when_a_run_is_continued_with_it():
    """Round 5 finds a broken model, and no accuracy of a sent model before it."""
    rest = broken(evaluation=ON, state=broken(rounds=4).state)
    assert rest.history["cohort_accuracy"][0] <= 0.5 * broken(rounds=4).history["train_accuracy"][-1]
    assert rest.history["failure"] == [0, 0, 0]


def test_examples_count_equally_whatever_the_weighting():
    for weighting in ("uniform", "examples"):
        result, records = played(weighting=weighting, rounds=1)
        federation = classification(SIZES)
        each = [plain(vector(network()), network(), federation, (client,))[1] for client in records[0].cohort]
        sizes = federation.sizes[list(records[0].cohort)]
        assert result.history["cohort_loss"][0] == pytest.approx(np.average(each, weights=sizes))
        assert np.mean(each) != pytest.approx(np.average(each, weights=sizes), rel=1e-6)
