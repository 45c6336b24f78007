from __future__ import annotations

import pytest
import torch
from torch import nn

from driftless.errors import InputError
from driftless.models import MODELS, build
from driftless.models.resnet import Subsample
from driftless.models.task import Task
from driftless.models.vit import SelfAttention
from models.tasks import CLASSIFIERS, IMAGES, PUBLISHED, SMALL, TEXT, inputs_for, without_memory

SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]


def parameters(module: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def small(name: str, seed: int = 0) -> nn.Module:
    task = SMALL[name]
    return build(name, task.input_shape, task.classes, seed, task.target_shape)


def test_every_model_has_a_task_and_is_a_classifier_or_linear_regression():
    assert set(SMALL) == set(PUBLISHED) == set(MODELS)
    assert [name for name in MODELS if SMALL[name].classes is None] == ["linear"]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_returns_scores_for_each_label_and_one_number_where_there_is_none(name: str):
    task = (SMALL if name in TEXT else PUBLISHED)[name]
    outputs = without_memory(name, task)(inputs_for(name, task, 5).to("meta"))
    assert outputs.shape == (5, *task.target_shape, *(() if task.classes is None else (task.classes,)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["logistic", "mlp", "cnn"])
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


@pytest.mark.parametrize(
    "name", ["linear", "mlp", "cnn", "cnn-emnist", "resnet-20", "mobilenet-v2", "gru-fedgbo", "lstm-large-cohort"]
)
def test_the_parameters_depend_on_the_seed_alone(name: str):
    torch.manual_seed(1)
    first = parameters(small(name))
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = parameters(small(name))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.equal(first, parameters(small(name, seed=1)))
    assert first.isfinite().all()


def test_attention_is_that_of_torch():
    ours, theirs = SelfAttention(24, 3), nn.MultiheadAttention(24, 3, batch_first=True)
    nn.init.normal_(ours.in_proj_bias)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0])


@pytest.mark.parametrize("name", TEXT)
def test_a_text_model_reads_the_same_last_step_for_one_label_and_for_a_sequence(name: str):
    one, each = (build(name, (4,), 7, target_shape=target) for target in ((), (4,)))
    each.load_state_dict(one.state_dict())
    tokens = inputs_for(name, SMALL[name], 3)
    torch.testing.assert_close(one(tokens), each(tokens)[:, -1])
    # what a step predicts does not depend on the tokens after it
    torch.testing.assert_close(each(tokens[:, :2]), each(tokens)[:, :2])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_a_text_model_takes_tokens_of_every_width(dtype: torch.dtype):
    assert build("lstm-ghbm", (4,), 7)(torch.tensor([[0, 1, 6, 2]], dtype=dtype)).shape == (1, 7)


@pytest.mark.parametrize("name", ["lstm-stackoverflow", "lstm-large-cohort"])
def test_an_lstm_of_keras_has_one_trained_bias_with_open_forget_gates(name: str):
    lstm = small(name).get_submodule("recur")
    assert isinstance(lstm, nn.LSTM)
    gates = lstm.get_parameter("bias_ih_l0").view(4, lstm.hidden_size)  # i, f, g, o
    assert torch.equal(gates, torch.tensor([0.0, 1.0, 0.0, 0.0])[:, None].expand_as(gates))
    for layer in range(lstm.num_layers):
        other = lstm.get_parameter(f"bias_hh_l{layer}")
        assert not other.requires_grad
        assert not other.any()


def test_the_shortcut_without_parameters_takes_every_second_pixel_and_pads_with_zeros():
    x = torch.arange(2.0 * 4 * 5 * 5).reshape(2, 4, 5, 5)
    out = Subsample(4, 8)(x)
    assert out.shape == (2, 8, 3, 3)
    assert torch.equal(out[:, 2:6], x[:, :, ::2, ::2])
    assert not out[:, :2].any()
    assert not out[:, 6:].any()


def test_an_unknown_name_raises_an_error_with_the_nearest_one():
    with pytest.raises(InputError, match="unknown model 'logistics'; did you mean 'logistic'"):
        build("logistics", (4,), 2)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_refuses_regression_data(name: str):
    with pytest.raises(InputError, match=f"model '{name}' needs classes.*use model 'linear'"):
        build(name, (4,) if name in TEXT else (1, 16, 16), None)


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name not in TEXT])
def test_a_model_for_one_label_refuses_sequences_of_labels(name: str):
    with pytest.raises(InputError, match=rf"model '{name}' gives one label.*shape \(4,\).*use a recurrent model"):
        build(name, (1, 16, 16), 7, target_shape=(4,))


@pytest.mark.parametrize("name", IMAGES)
def test_a_model_for_images_refuses_other_inputs(name: str):
    with pytest.raises(InputError, match=rf"model '{name}' needs images of shape .*got inputs of shape \(64,\)"):
        build(name, (64,), 10)


@pytest.mark.parametrize(
    ("name", "least"), [("cnn-adabest", 16), ("lenet", 16), ("cnn-fedgbo-cifar", 10), ("cnn-emnist", 6)]
)
def test_the_smallest_image_is_named_and_is_enough(name: str, least: int):
    assert without_memory(name, Task((1, least, least), 3))(torch.empty(2, 1, least, least, device="meta")).numel() == 6
    with pytest.raises(InputError, match=f"model '{name}' needs images .*at least {least}, got"):
        build(name, (1, least, least - 1), 3)


@pytest.mark.parametrize("name", ["resnet-18", "resnet-20", "mobilenet-v2"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 7, 12)])
def test_a_network_with_padding_takes_images_of_any_size(name: str, shape: tuple[int, ...]):
    assert without_memory(name, Task(shape, 3))(torch.empty(2, *shape, device="meta")).shape == (2, 3)


def test_the_transformer_asks_for_multiples_of_its_patches():
    with pytest.raises(InputError, match=r"model 'vit-b16' cuts images .*\(3, 32, 40\); resize them .*multiples of 16"):
        build("vit-b16", (3, 32, 40), 10)


@pytest.mark.parametrize("name", TEXT)
def test_a_text_model_refuses_images_and_targets_of_another_length(name: str):
    with pytest.raises(InputError, match=rf"model '{name}' needs sequences .*got inputs of shape \(1, 8, 8\)"):
        build(name, (1, 8, 8), 10)
    with pytest.raises(InputError, match=rf"model '{name}' gives one label, or .*shape \(3,\); give targets"):
        build(name, (4,), 10, target_shape=(3,))


def test_linear_refuses_data_with_classes():
    with pytest.raises(InputError, match=r"this data has 10 classes; use model 'logistic'"):
        build("linear", (4,), 10)


@pytest.mark.parametrize("shape", [(64,), (8, 8), (1, 3, 8), (1, 8, 3), (2, 1, 8, 8)])
def test_the_cnn_refuses_what_is_not_an_image(shape: tuple[int, ...]):
    with pytest.raises(
        InputError, match=r"model 'cnn' needs images of shape .*, got inputs of shape .*use model 'mlp'"
    ):
        build("cnn", shape, 10)
