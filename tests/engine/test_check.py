"""What the check before a run finds, and that it leaves no trace; tests/traps has whole runs against plain torch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from driftless import LocalTraining
from driftless.algorithms import FedAvg
from driftless.engine.check import try_block
from driftless.engine.flat import FlatModel
from driftless.engine.losses import cross_entropy
from driftless.engine.minibatches import Workload
from engine.problems import classification, network, run, seeded

LOCAL = LocalTraining(lr=0.1, epochs=2, batch_size=3)


class Counting(nn.Module):
    """Other arithmetic in every second call, by an attribute of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 3), 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return self.layer(inputs) * (1 + self.calls % 2)


def trial(module: nn.Module, loss: Any = cross_entropy) -> str | None:
    """Why the module cannot be trained in blocks."""
    model, federation = FlatModel(module, torch.float64), classification([3, 5, 4])
    return try_block(Workload(FedAvg(), model, loss, LOCAL, federation, seed=0)).problem


def test_a_model_that_changes_an_attribute_of_its_own_cannot_be_trained_in_blocks():
    assert trial(seeded(Counting)) == "its forward pass changes an attribute or a buffer of its own"


def test_a_model_whose_equal_calls_differ_cannot_be_trained_in_blocks():
    calls = [0]

    class Hidden(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            calls[0] += 1
            return super().forward(inputs) * (1 + calls[0] % 2)

    assert trial(seeded(lambda: Hidden(4, 3))) == "equal calls give different results"


def test_the_difference_that_excludes_blocks_is_named():
    weights = torch.tensor([1.0, 5.0, 0.1], dtype=torch.float64)
    problem = trial(network(), lambda outputs, targets: F.cross_entropy(outputs, targets, weights))
    assert problem is not None
    assert "minibatch the gradient of '0.weight' differs by" in problem


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_an_ordinary_network_can_be_trained_in_blocks(dropout: float):
    assert trial(network(dropout=dropout)) is None


class WritesBuffer(nn.Module):
    """A running mean that its forward pass uses and changes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(4, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.mean.mul_(0.5).add_(inputs.detach().mean(0))
        return self.layer(inputs - self.mean)


@pytest.mark.parametrize("training", [True, False])
def test_the_check_leaves_the_users_module_as_it_was(training: bool):
    module = seeded(WritesBuffer).train(training)
    module.layer.weight.grad = torch.ones_like(module.layer.weight)
    before, pointers = copy.deepcopy(module.state_dict()), [p.data_ptr() for p in module.parameters()]
    run("fedavg", classification([3, 5, 4]), module, engine="auto", dtype=torch.float32)
    assert module.training is training
    assert torch.equal(module.layer.weight.grad, torch.ones_like(module.layer.weight))
    assert module.layer.bias.grad is None
    assert [p.data_ptr() for p in module.parameters()] == pointers
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
        assert value.dtype == torch.float64
