"""Losses and models that do not treat every example of a batch by itself; losses that write over what they get."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from traps.plain import AUTO, BLOCK, SINGLE, assert_trains_as_plain_torch, labels, made, run

WEIGHTS = torch.tensor([1.0, 5.0, 0.1], dtype=torch.float64)
DIFFERS = r"the gradient of '.*' differs by .* from that of one client alone"


def network(zero: bool = False) -> nn.Module:
    """`zero`: a last layer of zeros, at which every example has the same outputs."""
    module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    if zero:
        nn.init.zeros_(module[2].weight)
        nn.init.zeros_(module[2].bias)
    return module


def class_weights(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, WEIGHTS)


def ignored_label(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, ignore_index=2)


def mean_and_variance(outputs: Tensor, targets: Tensor) -> Tensor:
    each = F.cross_entropy(outputs, targets, reduction="none")
    return each.mean() + each.var(correction=0)


def sum_over_examples(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="sum")


def largest(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none").max()


@pytest.mark.parametrize("zero", [False, True], ids=["", "last layer of zeros"])
@pytest.mark.parametrize("loss", [class_weights, ignored_label, mean_and_variance, sum_over_examples, largest])
def test_a_loss_that_is_not_a_mean_over_examples_is_trained_one_by_one(loss, zero: bool):
    assert_trains_as_plain_torch(made(lambda: network(zero)), loss, with_all_labels(), not_in_blocks=DIFFERS)


def with_all_labels():
    """Every minibatch has a label that is not ignored."""
    federation = labels()
    federation.targets[federation.targets == 2] = 1
    federation.targets[federation.offsets[:-1].copy()] = 2
    return federation


def test_a_class_that_only_one_client_has_keeps_its_weight():
    federation = labels((9, 9, 9))
    federation.targets[:] %= 2
    federation.targets[-1] = 2
    assert_trains_as_plain_torch(made(network), class_weights, federation, not_in_blocks=DIFFERS)


class BatchCentred(nn.Module):
    """Statistics of the batch, written by hand: an example's outputs depend on the others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs)
        return self.last((hidden - hidden.mean(0)).tanh())


def test_a_model_that_mixes_the_examples_of_a_batch_is_trained_one_by_one():
    assert_trains_as_plain_torch(made(BatchCentred), not_in_blocks=DIFFERS)


def test_label_smoothing_is_a_mean_over_examples():
    assert_trains_as_plain_torch(made(network), lambda o, t: F.cross_entropy(o, t, label_smoothing=0.1))


@pytest.mark.parametrize("engine", [SINGLE, AUTO, BLOCK])
def test_a_loss_that_writes_over_the_targets_does_not_change_the_data(engine):
    def renaming_labels(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets.neg_().add_(2))

    def out_of_place(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, 2 - targets)

    module = made(network)
    for algorithm in ("fedavg", "mime"):
        expected = run(module, labels(), engine, loss=out_of_place, algorithm=algorithm)
        assert torch.equal(run(module, labels(), engine, loss=renaming_labels, algorithm=algorithm), expected)
