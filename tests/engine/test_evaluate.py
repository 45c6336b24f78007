from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from driftless import Federation
from driftless.engine.evaluate import EVALUATION_BATCH, Evaluation, evaluate_batches, evaluated
from driftless.engine.flat import FlatModel
from driftless.engine.losses import Loss, cross_entropy, half_squared_error
from engine.problems import classification, linear, network, regression, run


def identity() -> FlatModel:
    """A model whose outputs are its two inputs."""
    module = nn.Linear(2, 2)
    with torch.no_grad():
        module.weight.copy_(torch.eye(2))
        module.bias.zero_()
    return FlatModel(module, torch.float64)


def evaluate(model: FlatModel, loss: Loss, data: tuple[Tensor, Tensor]) -> dict[str, float]:
    """The row of one test set."""
    of = Evaluation(model, loss, Federation.from_clients([data], test=data).to(torch.float64), seed=0)
    return evaluated(of, evaluate_batches(of, model.initial, 1, range(len(of.batches()))), 1).row


def test_loss_and_accuracy_by_hand():
    """Outputs (0, log 3): label 1 has probability 3/4, label 0 has 1/4. Two of three are right."""
    model = identity()
    inputs = torch.tensor([[0, math.log(3)]] * 3, dtype=torch.float64)
    measured = evaluate(model, cross_entropy, (inputs, torch.tensor([1, 1, 0])))
    assert measured == {
        "test_loss": pytest.approx((2 * math.log(4 / 3) + math.log(4)) / 3, rel=1e-14),
        "test_accuracy": pytest.approx(2 / 3, rel=1e-14),
    }


def test_regression_has_a_loss_and_no_accuracy():
    """(1/2) * ((1 + 4) + (9 + 0)) / 2."""
    model = identity()
    inputs = torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float64)
    targets = torch.tensor([[0.0, 0.0], [0.0, 5.0]], dtype=torch.float64)
    assert evaluate(model, half_squared_error, (inputs, targets)) == {"test_loss": 3.5}


def test_more_examples_than_one_evaluation_batch_are_averaged_by_example():
    generator = torch.Generator().manual_seed(0)
    n = 2 * EVALUATION_BATCH + 1
    inputs = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 2, (n,), generator=generator)
    inputs[-1], labels[-1] = torch.tensor([100.0, -100.0]), 1  # alone in the last batch, and very wrong
    model = identity()
    measured = evaluate(model, cross_entropy, (inputs, labels))
    assert measured["test_loss"] == pytest.approx(float(F.cross_entropy(inputs, labels)), rel=1e-13)
    assert measured["test_accuracy"] == pytest.approx(float((inputs.argmax(1) == labels).double().mean()), rel=1e-13)


def test_the_history_holds_what_the_result_is_worth_on_the_test_set():
    federation, module = classification([5, 7, 4]), network()
    result, _ = run("fedavg", federation, module, rounds=3)
    inputs, labels = federation.test
    outputs = result.module()(inputs).detach()
    assert result.history["test_loss"][-1] == pytest.approx(float(F.cross_entropy(outputs, labels)), rel=1e-12)
    assert result.history["test_accuracy"][-1] == pytest.approx(float((outputs.argmax(1) == labels).double().mean()))


@pytest.mark.parametrize("shape", ["one number", "a column"])
def test_no_accuracy_is_reported_for_labels_whose_outputs_are_not_class_scores(shape: str):
    """A user's own binary loss on one number an example: which output is the largest says nothing."""

    def binary(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(outputs.flatten(), targets.to(outputs.dtype))

    clients = [(inputs, (targets > 0).long()) for inputs, targets in map(regression([5, 6]).client, (0, 1))]
    federation = Federation.from_clients(clients, test=clients[0])
    module = linear() if shape == "one number" else linear()[:1]
    result, _ = run("fedavg", federation, module, loss=binary)
    assert "test_loss" in result.history.columns
    assert "test_accuracy" not in result.history.columns


@pytest.mark.parametrize(
    ("every", "rounds", "measured"), [(1, 3, [1, 2, 3]), (2, 5, [2, 4, 5]), (4, 3, [3]), (0, 3, [])]
)
def test_evaluation_happens_every_so_many_rounds_and_at_the_end(every: int, rounds: int, measured: list[int]):
    result, records = run("fedavg", regression([3, 4]), linear(), rounds=rounds, evaluate_every=every)
    assert [row["round"] for row in result.history if "test_loss" in row] == measured
    assert [record.round for record in records if "test_loss" in record.metrics] == measured


def test_without_a_test_set_nothing_is_evaluated():
    federation = Federation.from_clients([regression([3, 4]).client(i) for i in range(2)])
    result, _ = run("fedavg", federation, linear(), rounds=2)
    assert not [name for name in result.history.columns if name.startswith("test")]


def test_evaluating_changes_nothing():
    federation, module = classification([5, 7, 4]), network(dropout=0.3)
    often, _ = run("fedavg", federation, module, rounds=3, evaluate_every=1)
    never, _ = run("fedavg", federation, module, rounds=3, evaluate_every=0)
    assert torch.equal(often.x, never.x)
