"""Every model trains, for one client after the other and for blocks of clients, to the same parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import driftless
from driftless import Federation, LocalTraining
from driftless.errors import InputError
from driftless.models import build
from driftless.models.mobilenet import InvertedResidual, convolution
from driftless.models.resnet import ResNet, Subsample, projection
from driftless.models.task import Task
from driftless.models.vit import VisionTransformer
from driftless.simulate import Result
from models.tasks import LIGHT, SMALL, TEXT, inputs_for

LARGE = ("resnet-18", "resnet-20", "mobilenet-v2", "lstm-stackoverflow")
"""Only their gradients are computed here; both engines train small networks of the same layers."""
SAME_LAYERS = ("cnn-adabest", "cnn-fedgbo-femnist", "lstm-ghbm")
"""The layers of 'lenet' and 'cnn-fedgbo-cifar'; the cell of 'lstm-large-cohort' with the output of 'gru-fedgbo'."""


def federation(name: str, task: Task, sizes: tuple[int, ...] = (3, 2)) -> Federation:
    def client(i: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(100 + i)
        targets = torch.rand(n, *task.target_shape, generator=generator)
        if task.classes is not None:
            targets = (task.classes * targets).long()
        return inputs_for(name, task, n, seed=i), targets

    return Federation.from_clients([client(i, n) for i, n in enumerate(sizes)], classes=task.classes)


def trained(name: str, task: Task, model: nn.Module, engine: str, **options: Any) -> Result:
    """After one round of two clients; every layer has moved."""
    result = driftless.simulate(
        "fedavg", federation(name, task), model, rounds=1, cohort=2, engine=engine, evaluate_every=0,
        **options,
    )  # fmt: skip
    after = dict(result.module().named_parameters())
    assert all(parameter.isfinite().all() for parameter in after.values())
    still = [name for name, before in model.named_parameters() if torch.equal(after[name], before.to(result.x.dtype))]
    assert still == [name for name, before in model.named_parameters() if not before.requires_grad]
    return result


def assert_both_engines_train_alike(name: str, task: Task, model: nn.Module) -> None:
    """Two epochs with a short last batch, so that the block has padding."""
    options = {"local": LocalTraining(lr=0.1, epochs=2, batch_size=2), "dtype": torch.float64}
    single, block = (trained(name, task, model, engine, **options) for engine in ("single", "block"))
    torch.testing.assert_close(single.x, block.x, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in LIGHT if name not in (*LARGE, *SAME_LAYERS)])
def test_both_engines_train_a_model_to_the_same_parameters(name: str):
    task = SMALL[name]
    assert_both_engines_train_alike(name, task, build(name, task.input_shape, task.classes, 0, task.target_shape))


def small_resnet_18() -> nn.Module:
    return ResNet(nn.Conv2d(3, 8, 7, stride=2, padding=3), (8, 16), 1, projection, 7)


def small_resnet_20() -> nn.Module:
    return ResNet(nn.Conv2d(3, 4, 3, padding=1), (4, 8), 1, Subsample, 7)


def small_mobilenet() -> nn.Module:
    residuals = [InvertedResidual(8, 8, stride=1, expansion=1), InvertedResidual(8, 16, stride=2, expansion=6)]
    return nn.Sequential(convolution(3, 8, 3, 2), *residuals, nn.Flatten(), nn.Linear(16 * 4, 7))


def small_transformer() -> nn.Module:
    module = VisionTransformer((3, 32, 16), 7, width=24, layers=1, heads=3)
    nn.init.normal_(module.get_parameter("heads.head.weight"), std=0.1)
    return module


@pytest.mark.parametrize(
    ("name", "shape", "make"),
    [
        ("resnet-18", (3, 8, 8), small_resnet_18),
        ("resnet-20", (3, 8, 8), small_resnet_20),
        ("mobilenet-v2", (3, 8, 8), small_mobilenet),
        ("vit-b16", (3, 32, 16), small_transformer),
    ],
)
def test_both_engines_train_a_small_network_of_the_same_layers(
    name: str, shape: tuple[int, ...], make: Callable[[], nn.Module]
):
    torch.manual_seed(0)
    assert_both_engines_train_alike(name, Task(shape, 7), make())


@pytest.mark.parametrize("name", LARGE)
def test_every_trained_parameter_of_a_large_model_has_a_gradient(name: str):
    task = SMALL[name]
    module = build(name, task.input_shape, task.classes, 0, task.target_shape)
    inputs, targets = federation(name, task).client(0)
    nn.functional.cross_entropy(module(inputs).flatten(0, -2), targets.flatten()).backward()
    for parameter in module.parameters():
        gradient = parameter.grad
        assert (gradient is not None) == parameter.requires_grad
        assert gradient is None or (gradient.isfinite().all() and gradient.any())


@pytest.mark.parametrize("name", ["cnn-emnist", "lstm-ghbm"])
def test_training_lowers_the_loss(name: str):
    task = SMALL[name]
    local = LocalTraining(lr=0.1, steps=4, batch_size=None)
    result = driftless.simulate(
        "fedavg", federation(name, task), name, rounds=6, cohort=2, local=local, engine="single", evaluate_every=0
    )
    losses = result.history["train_loss"]
    assert losses[-1] < 0.9 * losses[0]


def test_a_token_beyond_the_vocabulary_is_found_before_any_work():
    tokens = torch.zeros(5, 4, dtype=torch.long)
    tokens[3, 2] = 9
    data = Federation.from_clients([(tokens, torch.zeros(5, dtype=torch.long))], classes=7)
    with pytest.raises(InputError, match=r"the model cannot compute on inputs of shape \[2, 4\].*out of range"):
        driftless.simulate("fedavg", data, "lstm-ghbm", rounds=1, cohort=1)


@pytest.mark.parametrize("name", TEXT)
def test_a_text_model_refuses_inputs_that_are_not_token_numbers(name: str):
    data = Federation.from_clients([(torch.rand(5, 4), torch.zeros(5, dtype=torch.long))], classes=7)
    with pytest.raises(InputError, match=r"float32: tokens must be whole numbers"):
        driftless.simulate("fedavg", data, name, rounds=1, cohort=1)


def test_simulate_asks_a_named_model_for_a_label_at_each_step_if_the_data_have_one():
    task = Task((4,), 7, (4,))
    result = driftless.simulate(
        "fedavg", federation("lstm-ghbm", task), "lstm-ghbm", rounds=1, cohort=2, engine="single", evaluate_every=0
    )
    assert result.module()(torch.zeros(2, 4, dtype=torch.long)).shape == (2, 4, 7)
