"""Images in channels-last order, for models that can compute on them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from driftless import Federation, LocalTraining, Result, simulate
from driftless.engine import channels_last

SEEN: list[bool] = []


class Model(nn.Module):
    """Notes in which order the images come."""

    def __init__(self, *layers: nn.Module, flatten: Any = torch.flatten) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(16, 3)
        self.flatten = flatten

    def forward(self, images: Tensor) -> Tensor:
        SEEN.append(images.is_contiguous(memory_format=torch.channels_last))
        return self.head(self.flatten(self.layers(images), 1))


def by_view(images: Tensor, _: int) -> Tensor:
    return images.view(len(images), -1)


def played(model: nn.Module) -> Result:
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.randn(12, 3, 4, 4, generator=generator), torch.arange(12) % 3
    federation = Federation.from_assignment(images, labels, [0] * 6 + [1] * 6, test=(images, labels))
    for p in model.parameters():
        nn.init.normal_(p, std=0.3, generator=generator)
    SEEN.clear()
    return simulate("scaffold", federation, model, rounds=3, cohort=2, local=LocalTraining(lr=0.1, batch_size=4))


def test_convolutions_get_their_images_in_that_order_and_train_alike(monkeypatch: pytest.MonkeyPatch):
    model = Model(nn.Conv2d(3, 4, 3), nn.ReLU())
    fast = played(model)
    assert SEEN[-1]
    monkeypatch.setattr(channels_last, "use_if_it_works", lambda work: None)
    usual = played(model)
    assert not SEEN[-1]
    torch.testing.assert_close(fast.x, usual.x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        Model(nn.Conv2d(3, 4, 3), flatten=by_view),
        Model(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)),
        Model(nn.Flatten(), nn.Linear(48, 16)),
    ],
    ids=["a view", "group norm", "no convolution"],
)
def test_other_models_get_them_as_they_are(model: nn.Module):
    assert played(model).x.isfinite().all()
    assert not SEEN[-1]
