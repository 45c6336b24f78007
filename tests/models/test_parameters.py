"""The sizes of the models, layer by layer as the papers give them, and the totals that are published."""

from __future__ import annotations

import pytest
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]

from driftless.models import MODELS
from models.tasks import PUBLISHED, SMALL, trainable, without_memory


def fc(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def conv(inputs: int, outputs: int, kernel: int) -> int:
    """With bias."""
    return inputs * outputs * kernel**2 + outputs


def conv_norm(inputs: int, outputs: int, kernel: int) -> int:
    """Without bias, followed by a normalisation with two numbers a channel: GroupNorm has as many as BatchNorm."""
    return inputs * outputs * kernel**2 + 2 * outputs


def lstm(inputs: int, units: int, biases: int) -> int:
    """Four gates; torch has two biases for each, Keras one."""
    return 4 * units * (inputs + units + biases)


def gru(inputs: int, units: int) -> int:
    return 3 * units * (inputs + units + 2)


def inverted(inputs: int, outputs: int, expansion: int) -> int:
    hidden = inputs * expansion
    widen = conv_norm(inputs, hidden, 1) if expansion > 1 else 0
    return widen + conv_norm(1, hidden, 3) + conv_norm(hidden, outputs, 1)


def transformer_layer(width: int) -> int:
    return 2 * width + fc(width, 3 * width) + fc(width, width) + 2 * width + fc(width, 4 * width) + fc(4 * width, width)


BY_HAND: dict[str, int] = {
    "linear": 13,
    "logistic": fc(5000, 2),
    "mlp": fc(784, 100) + fc(100, 100) + fc(100, 10),
    "cnn": conv(1, 16, 3) + conv(16, 32, 3) + fc(32 * 2 * 2, 64) + fc(64, 10),
    # 32 -> 28 -> 14 -> 10 -> 5 pixels
    "cnn-adabest": conv(3, 64, 5) + conv(64, 64, 5) + fc(64 * 5 * 5, 394) + fc(394, 192) + fc(192, 10),
    "lenet": conv(3, 64, 5) + conv(64, 64, 5) + fc(64 * 5 * 5, 384) + fc(384, 192) + fc(192, 10),
    # 32 -> 30 -> 15 -> 13 -> 6 and 28 -> 26 -> 13 -> 11 -> 5 pixels
    "cnn-fedgbo-cifar": conv(3, 32, 3) + conv(32, 64, 3) + fc(64 * 6 * 6, 512) + fc(512, 100),
    "cnn-fedgbo-femnist": conv(1, 32, 3) + conv(32, 64, 3) + fc(64 * 5 * 5, 512) + fc(512, 62),
    # 28 -> 26 -> 24 -> 12 pixels
    "cnn-emnist": conv(1, 32, 3) + conv(32, 64, 3) + fc(64 * 12 * 12, 128) + fc(128, 62),
    "resnet-20": conv_norm(3, 16, 3)
    + 6 * conv_norm(16, 16, 3)
    + (conv_norm(16, 32, 3) + 5 * conv_norm(32, 32, 3))
    + (conv_norm(32, 64, 3) + 5 * conv_norm(64, 64, 3))
    + fc(64, 10),
    "resnet-18": conv_norm(3, 64, 7)
    + 4 * conv_norm(64, 64, 3)
    + sum(
        conv_norm(width // 2, width, 3) + 3 * conv_norm(width, width, 3) + conv_norm(width // 2, width, 1)
        for width in (128, 256, 512)
    )
    + fc(512, 100),
    "mobilenet-v2": conv_norm(3, 32, 3)
    + inverted(32, 16, 1)
    + (inverted(16, 24, 6) + inverted(24, 24, 6))
    + (inverted(24, 32, 6) + 2 * inverted(32, 32, 6))
    + (inverted(32, 64, 6) + 3 * inverted(64, 64, 6))
    + (inverted(64, 96, 6) + 2 * inverted(96, 96, 6))
    + (inverted(96, 160, 6) + 2 * inverted(160, 160, 6))
    + inverted(160, 320, 6)
    + conv_norm(320, 1280, 1)
    + fc(1280, 1000),
    # 14 x 14 patches and the class token have positions
    "vit-b16": conv(3, 768, 16) + 768 + (14 * 14 + 1) * 768 + 12 * transformer_layer(768) + 2 * 768 + fc(768, 1000),
    "gru-fedgbo": 79 * 8 + gru(8, 128) + gru(128, 128) + fc(128, 79),
    "lstm-ghbm": 80 * 8 + lstm(8, 100, 2) + lstm(100, 100, 2) + fc(100, 80),
    "lstm-large-cohort": 90 * 8 + lstm(8, 256, 1) + lstm(256, 256, 1) + fc(256, 90),
    "lstm-stackoverflow": 10_004 * 96 + lstm(96, 670, 1) + fc(670, 96) + fc(96, 10_004),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_number_of_parameters_is_the_one_counted_by_hand(name: str):
    assert trainable(without_memory(name, PUBLISHED[name])) == BY_HAND[name]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("cnn-emnist", 1_206_590),  # Reddi et al. 2021
        ("lstm-large-cohort", 820_522),  # Reddi et al. 2021
        ("lstm-stackoverflow", 4_050_748),  # Reddi et al. 2021
        ("resnet-20", 269_722),  # He et al. 2016: 0.27 million
        ("resnet-18", 11_689_512 - fc(512, 1000) + fc(512, 100)),  # with 1000 classes 11.7 million
        ("mobilenet-v2", 3_504_872),
        ("vit-b16", 86_567_656),
    ],
)
def test_the_number_of_parameters_is_the_published_one(name: str, count: int):
    assert trainable(without_memory(name, PUBLISHED[name])) == count


@pytest.mark.parametrize("name", MODELS)
def test_the_docstring_of_a_model_is_one_line_with_its_number_of_parameters(name: str):
    docstring = MODELS[name].__doc__ or ""
    assert f"; {BY_HAND[name]:,} parameters" in docstring
    assert "\n" not in docstring


@pytest.mark.parametrize("name", MODELS)
def test_no_model_has_batch_norm_or_running_statistics(name: str):
    parts = list(without_memory(name, SMALL[name]).modules())
    assert not [part for part in parts if isinstance(part, _BatchNorm) or getattr(part, "track_running_stats", False)]


@pytest.mark.parametrize("name", ["resnet-18", "resnet-20", "mobilenet-v2"])
def test_every_normalisation_of_the_papers_is_group_norm_with_two_groups(name: str):
    module = without_memory(name, SMALL[name])
    norms = [part for part in module.modules() if isinstance(part, nn.GroupNorm)]
    assert {norm.num_groups for norm in norms} == {2}
    convolutions = [part for part in module.modules() if isinstance(part, nn.Conv2d)]
    assert len(norms) == len(convolutions)
    assert all(part.bias is None for part in convolutions)
