"""Personalised accuracy against a plain PyTorch loop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from driftless import EvaluationSettings, Federation, InputError, LocalTraining
from driftless.algorithms import FedAvg
from driftless.engine.batches import plan
from driftless.random import key63, stream
from engine.problems import classification, linear, network, regression, run
from engine.test_metrics import own_tests

LOCAL = LocalTraining(lr=0.2, epochs=2, batch_size=3, weight_decay=0.01, lr_decay=0.9)
STEPS = 5


def personal(federation: Federation, module: nn.Module, **options: Any) -> Any:
    given = {"local": LOCAL, "evaluation": EvaluationSettings(finetune_steps=STEPS), "rounds": 2, "cohort": 3}
    return run(options.pop("algorithm", "fedavg"), federation, module, **(given | options))[0]


def plain_steps(module: nn.Module, federation: Federation, client: int, t: int, loss: Any) -> nn.Module:
    """Five steps of SGD on the client's own minibatches, in plain PyTorch."""
    inputs, targets = federation.client(client)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.2 * 0.9 ** (t - 1), weight_decay=0.01)
    training = LocalTraining(lr=0.2, steps=STEPS, batch_size=3)
    order = plan(training, len(targets), stream(key63(0, "fine-tuning"), "batches", t, client))
    for index, count in zip(order.index, order.count, strict=True):
        rows = torch.from_numpy(index[:count])
        optimizer.zero_grad()
        loss(module(inputs[rows].double()), targets[rows]).backward()
        optimizer.step()
    return module


@pytest.mark.parametrize("engine", ["single", "block"])
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_personal_accuracy_is_that_of_a_plain_loop(engine: str, algorithm: str):
    federation = own_tests()
    result = personal(federation, network(), algorithm=algorithm, engine=engine)
    before, after = [], []
    for client in (0, 1, 2, 4):
        inputs, labels = federation.client_test.client(client)
        module = result.module()
        before.append(float((module(inputs.double()).argmax(1) == labels).double().mean()))
        module = plain_steps(module, federation, client, 2, F.cross_entropy)
        after.append(float((module(inputs.double()).argmax(1) == labels).double().mean()))
    assert before != after
    row = result.history[-1]
    assert row["client_accuracy"] == pytest.approx(np.mean(before))
    assert row["personal_accuracy"] == pytest.approx(np.mean(after))
    for p in (5, 25, 50, 75, 95):
        assert row[f"personal_p{p}"] == pytest.approx(np.percentile(after, p))
    assert result.client_metrics["personal_accuracy"] == pytest.approx([*after[:3], math.nan, after[3]], nan_ok=True)


def test_regression_has_a_personal_loss():
    whole = regression([7, 9, 8, 6])
    pairs = [whole.client(i) for i in range(4)]
    federation = Federation.from_clients(pairs, test=pairs[0], client_test=[pairs[1], None, pairs[3], pairs[0]])
    result = personal(federation, linear())
    before, after = [], []
    for client in (0, 2, 3):
        inputs, targets = federation.client_test.client(client)

        def half(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return 0.5 * (outputs - targets).square().mean()

        module = result.module()
        before.append(half(module(inputs), targets).item())
        after.append(half(plain_steps(module, federation, client, 2, half)(inputs), targets).item())
    assert result.history[-1]["client_loss"] == pytest.approx(np.mean(before))
    assert result.history[-1]["personal_loss"] == pytest.approx(np.mean(after))
    assert result.client_metrics["loss"] == pytest.approx([before[0], math.nan, *before[1:]], nan_ok=True)


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "adabest"])
def test_fine_tuning_changes_nothing_of_the_run(algorithm: str):
    with_it = personal(own_tests(), network(dropout=0.3), algorithm=algorithm)
    without = personal(own_tests(), network(dropout=0.3), algorithm=algorithm, evaluation=None)
    assert torch.equal(with_it.x, without.x)
    assert with_it.history["test_loss"] == without.history["test_loss"]
    assert with_it.history["train_loss"] == without.history["train_loss"]


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_does_not_change_a_bit(workers: int):
    one, several = (personal(own_tests(), network(), block_size=2, workers=w, rounds=3) for w in (1, workers))
    for name in ("personal_accuracy", "client_accuracy", "personal_p25", "test_loss"):
        assert one.history[name] == several.history[name]
    assert str(one.client_metrics) == str(several.client_metrics)


def test_local_steps_that_diverge_are_reported_and_left_out():
    explosive = LocalTraining(lr=1e-3, steps=1, batch_size=3)
    federation = own_tests()

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(outputs, targets) + (outputs * 1e3).square().square().mean()

    settings = EvaluationSettings(finetune_steps=60)
    result = run(FedAvg(), federation, network(), local=explosive, loss=loss, evaluation=settings, engine="single")[0]
    assert "personal_accuracy" not in result.history.columns
    assert [e.what for e in result.events if "personal" in e.what] == [
        "personal_accuracy is not a number: the local steps of some clients were not finite"
    ]


def test_without_test_data_of_the_clients_there_is_nothing_to_personalise_for():
    with pytest.raises(InputError, match=r"finetune_steps=5 judges .* set data.client_test=0.2, give Federation"):
        personal(classification([6, 7, 8]), network())
