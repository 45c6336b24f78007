"""Outputs with classes in the second dimension, as torch's own cross_entropy has it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from driftless import Federation, LocalTraining, simulate
from driftless.engine.losses import cross_entropy
from traps.plain import AUTO, BLOCK, SINGLE, assert_trains_as_plain_torch, made


def pixels(height: int = 3, width: int = 5, classes: int = 4) -> Federation:
    """A label for each pixel: which of its channels is the largest."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(n, classes, height, width, generator=generator) for n in (3, 7, 4)]
    clients = [(values, values.argmax(1)) for values in inputs]
    return Federation.from_clients(clients, test=clients[1], classes=classes)


def segmenting(classes: int = 4) -> nn.Module:
    return made(lambda: nn.Conv2d(classes, classes, 1))


@pytest.mark.parametrize("loss", [None, F.cross_entropy], ids=["default loss", "torch's loss"])
@pytest.mark.parametrize("engine", [SINGLE, AUTO, BLOCK])
def test_the_accuracy_of_a_segmentation_is_the_share_of_its_pixels(loss, engine):
    federation, module = pixels(), segmenting()
    result = simulate(
        "fedavg",
        federation,
        module,
        rounds=5,
        cohort=3,
        local=LocalTraining(lr=1.0, epochs=2, batch_size=None),
        loss=loss,
        engine=engine,
    )
    inputs, targets = federation.test
    with torch.no_grad():
        outputs = result.module()(inputs)
    accuracy = (outputs.argmax(1) == targets).double().mean().item()
    assert result.history[-1]["test_accuracy"] == pytest.approx(accuracy)
    assert result.history[-1]["test_loss"] == pytest.approx(F.cross_entropy(outputs, targets).item(), rel=1e-5)
    assert 0.5 < accuracy < 1.0
    assert 0.3 < result.history[-1]["train_accuracy"] < 1.0


def test_a_segmentation_trains_as_plain_torch():
    assert_trains_as_plain_torch(segmenting(), cross_entropy, pixels())
    assert_trains_as_plain_torch(segmenting(), F.cross_entropy, pixels())


class Sequence(nn.Module):
    """[batch, 4] -> [batch, 4, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs)


def test_where_the_classes_could_be_in_two_dimensions_a_loss_of_ones_own_gives_no_accuracy():
    generator = torch.Generator().manual_seed(0)
    clients = [(torch.randn(n, 4, 4, generator=generator), torch.arange(4 * n).view(n, 4) % 4) for n in (3, 5)]
    federation = Federation.from_clients(clients, test=clients[0], classes=4)
    options = {"rounds": 1, "cohort": 2}
    assert (
        "test_accuracy"
        not in simulate("fedavg", federation, made(Sequence), loss=F.cross_entropy, **options).history[0]
    )
    row = simulate("fedavg", federation, made(Sequence), **options).history[0]
    assert row["test_loss"] > 0
    assert 0 <= row["test_accuracy"] <= 1
