"""Random numbers and numbers that go past torch's operations."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from driftless import Federation, InputError
from traps.plain import AUTO, BLOCK, PROCESSES, SINGLE, assert_trains_as_plain_torch, labels, made, run

NOT_IN_BLOCKS = "vmap cannot lift it|equal calls give different results|differs by"


class Noisy(nn.Module):
    """Adds noise to the outputs; `seed`: always the same."""

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        self.layer, self.seed = nn.Linear(4, 3), seed

    def forward(self, inputs: Tensor) -> Tensor:
        if self.seed is not None:
            torch.manual_seed(self.seed)
        outputs = self.layer(inputs)
        return outputs + 0.1 * torch.randn(outputs.shape, dtype=outputs.dtype)


@pytest.mark.parametrize("seed", [None, 3], ids=["noise", "seeded in the forward pass"])
def test_noise_in_the_forward_pass(seed: int | None):
    module = made(lambda: Noisy(seed))
    assert_trains_as_plain_torch(module, engines=(SINGLE, AUTO, PROCESSES), not_in_blocks=NOT_IN_BLOCKS)


class AppliesPython(nn.Module):
    """`Tensor.apply_` calls Python for every number; no operation shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs.clone().apply_(lambda value: value * value))


def test_functions_of_python_applied_to_every_number():
    assert_trains_as_plain_torch(made(AppliesPython), not_in_blocks=NOT_IN_BLOCKS)


@pytest.mark.parametrize("draw", [random.random, np.random.random], ids=["random", "numpy"])
@pytest.mark.parametrize("engine", [SINGLE, AUTO, BLOCK])
def test_random_numbers_that_are_not_torchs_are_refused(engine, draw):
    """Nothing keys them, so two runs would differ."""

    class Drawing(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(inputs) * (1 + draw())

    with pytest.raises(InputError, match="computes something else in each call"):
        run(made(lambda: Drawing(4, 3)), labels(), engine)


class TimeFirst(nn.Module):
    """Dropout on [time, batch, hidden]: which unit is dropped depends on the width of the minibatch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(2, 5), nn.Dropout(0.5), nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs.view(-1, 2, 2).transpose(0, 1)).tanh()
        return self.last(self.drop(hidden)).mean(0)


def test_dropout_before_the_batch_dimension_drops_the_same_in_every_engine():
    module, federation = made(TimeFirst), labels()
    single, automatic = (run(module, federation, engine) for engine in (SINGLE, AUTO))
    torch.testing.assert_close(single, automatic, rtol=0, atol=1e-12)
    with pytest.raises(InputError, match="a minibatch with padding the gradient of"):
        run(module, federation, BLOCK)


def test_dropout_before_the_batch_dimension_can_be_trained_in_blocks_without_padding():
    equal = Federation.from_clients([labels((6, 6)).client(i) for i in range(2)], classes=3)
    single, automatic = (run(made(TimeFirst), equal, engine) for engine in (SINGLE, AUTO))
    torch.testing.assert_close(single, automatic, rtol=0, atol=1e-12)
