from __future__ import annotations

import pytest
import torch
from torch import nn

from driftless.errors import InputError
from driftless.models import MODELS, build

SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]
CLASSIFIERS = ["logistic", "mlp", "cnn"]


def classes_for(name: str) -> int | None:
    return 10 if name in CLASSIFIERS else None


def parameters(module: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def test_every_model_is_a_classifier_or_linear_regression():
    assert set(MODELS) == {*CLASSIFIERS, "linear"}


@pytest.mark.parametrize(
    ("name", "shape", "count"),
    [
        ("linear", (13,), 13),
        ("linear", (1, 8, 8), 64),
        ("linear", (3, 32, 32), 3072),
        # inputs * 10 + 10
        ("logistic", (1, 8, 8), 650),
        ("logistic", (1, 28, 28), 7_850),
        ("logistic", (3, 32, 32), 30_730),
        # inputs * 100 + 100, then 100 * 100 + 100 = 10,100, then 100 * 10 + 10 = 1,010
        ("mlp", (1, 8, 8), 6_500 + 10_100 + 1_010),
        ("mlp", (1, 28, 28), 78_500 + 10_100 + 1_010),
        ("mlp", (3, 32, 32), 307_300 + 10_100 + 1_010),
        # 9 * channels * 16 + 16, then 9 * 16 * 32 + 32 = 4,640,
        # then 32 * (side / 4)^2 * 64 + 64, then 64 * 10 + 10 = 650
        ("cnn", (1, 8, 8), 160 + 4_640 + 8_256 + 650),
        ("cnn", (1, 28, 28), 160 + 4_640 + 100_416 + 650),
        ("cnn", (3, 32, 32), 448 + 4_640 + 131_136 + 650),
    ],
)
def test_the_number_of_parameters_is_the_one_counted_by_hand(name: str, shape: tuple[int, ...], count: int):
    assert parameters(build(name, shape, classes_for(name))).numel() == count


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_returns_one_row_of_scores_per_example(name: str, shape: tuple[int, ...]):
    assert build(name, shape, 7)(torch.zeros(5, *shape)).shape == (5, 7)


@pytest.mark.parametrize("shape", [(13,), *SHAPES])
@pytest.mark.parametrize("batch", [1, 5])
def test_linear_returns_one_number_per_example(shape: tuple[int, ...], batch: int):
    assert build("linear", shape, None)(torch.zeros(batch, *shape)).shape == (batch,)


def test_linear_is_the_inner_product_with_its_parameters():
    module = build("linear", (2, 3), None)
    inputs = torch.arange(12.0).reshape(2, 2, 3)
    torch.testing.assert_close(module(inputs), inputs.reshape(2, 6) @ parameters(module))


@pytest.mark.parametrize("shape", [(1, 4, 4), (2, 9, 13)])
def test_the_cnn_fits_small_and_odd_images(shape: tuple[int, ...]):
    assert build("cnn", shape, 3)(torch.zeros(2, *shape)).shape == (2, 3)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_parameters_and_another_seed_others(name: str):
    first, again, other = (parameters(build(name, (1, 8, 8), classes_for(name), seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", MODELS)
def test_building_neither_reads_nor_changes_the_global_random_state(name: str):
    torch.manual_seed(1)
    first = parameters(build(name, (1, 8, 8), classes_for(name)))
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = parameters(build(name, (1, 8, 8), classes_for(name)))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, second)


@pytest.mark.parametrize("name", MODELS)
def test_a_block_of_clients_can_be_evaluated_at_once(name: str):
    module = build(name, (1, 8, 8), classes_for(name))
    models = {key: torch.stack([value, 2 * value]) for key, value in module.named_parameters()}
    inputs = torch.rand(2, 3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    together = torch.func.vmap(lambda model, x: torch.func.functional_call(module, model, (x,)))(models, inputs)
    for client, outputs in enumerate(together):
        alone = {key: value[client] for key, value in models.items()}
        torch.testing.assert_close(outputs, torch.func.functional_call(module, alone, (inputs[client],)))


@pytest.mark.parametrize("name", MODELS)
def test_every_builder_is_described_in_one_line(name: str):
    description = MODELS[name].__doc__
    assert description is not None
    assert description.endswith(".")
    assert "\n" not in description


def test_an_unknown_name_is_answered_with_the_nearest_one():
    with pytest.raises(InputError, match="unknown model 'logistics'; did you mean 'logistic'"):
        build("logistics", (4,), 2)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_refuses_regression_data(name: str):
    with pytest.raises(InputError, match=f"model '{name}' needs classes.*use model 'linear'"):
        build(name, (1, 8, 8), None)


def test_linear_refuses_data_with_classes():
    with pytest.raises(InputError, match=r"this data has 10 classes; use model 'logistic'"):
        build("linear", (4,), 10)


@pytest.mark.parametrize("shape", [(64,), (8, 8), (1, 3, 8), (1, 8, 3), (2, 1, 8, 8)])
def test_the_cnn_refuses_what_is_not_an_image(shape: tuple[int, ...]):
    with pytest.raises(
        InputError, match=r"model 'cnn' needs images of shape .*, got inputs of shape .*use model 'mlp'"
    ):
        build("cnn", shape, 10)
