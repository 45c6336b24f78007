"""Forward passes that write: over their inputs, into their parameters, into buffers and other tensors they keep."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from driftless import Federation, simulate
from traps.plain import (
    AUTO,
    BLOCK,
    PROCESSES,
    ROUNDS,
    SINGLE,
    assert_refused,
    assert_trains_as_plain_torch,
    labels,
    made,
    run,
)

EVERYWHERE = (SINGLE, AUTO, PROCESSES)


def test_a_first_layer_that_writes_over_its_inputs():
    assert_trains_as_plain_torch(made(lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 3))))


@pytest.mark.parametrize("engine", [SINGLE, BLOCK])
def test_a_first_layer_that_writes_over_its_inputs_does_not_change_the_second_gradient_of_mime(engine):
    writing, other = (
        run(made(lambda: nn.Sequential(nn.ReLU(inplace), nn.Linear(4, 3))), labels(), engine, algorithm="mime")  # noqa: B023
        for inplace in (True, False)
    )
    assert torch.equal(writing, other)


class Clamped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            self.layer.weight.clamp_(-0.3, 0.3)
        return self.layer(inputs)


def test_a_forward_pass_that_clamps_its_weights():
    assert_trains_as_plain_torch(made(Clamped), not_in_blocks="writes into its parameters|vmap cannot lift it")


def test_an_embedding_with_a_largest_norm():
    clients = [(torch.arange(4 * n).view(n, 4) % 7, torch.arange(n) % 3) for n in (3, 7, 4)]
    federation = Federation.from_clients(clients, test=clients[0], classes=3)

    class Embedded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.last = nn.Embedding(7, 5, max_norm=0.5), nn.Linear(20, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.last(self.embedding(inputs.long()).flatten(1))

    why = "writes into its parameters|vmap cannot lift it"
    assert_trains_as_plain_torch(made(Embedded), federation=federation, not_in_blocks=why)


def test_evaluating_a_model_that_clamps_its_weights_does_not_change_the_run():
    often, never = (run(made(Clamped), labels(), AUTO, evaluate_every=every) for every in (1, 0))
    assert torch.equal(often, never)


class RunningMean(nn.Module):
    """Uses and changes a mean that is a buffer, or just an attribute."""

    def __init__(self, buffer: bool, replaced: bool = False) -> None:
        super().__init__()
        self.layer, self.replaced = nn.Linear(4, 3), replaced
        if buffer:
            self.register_buffer("mean", torch.zeros(4, dtype=torch.float64))
        else:
            self.mean = torch.zeros(4, dtype=torch.float64)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            new = 0.5 * self.mean + inputs.detach().mean(0)
            if self.replaced:
                self.mean = new
            else:
                self.mean.copy_(new)
        return self.layer(inputs - self.mean)


NOT_IN_BLOCKS = "vmap cannot lift it|equal calls give different results|changes an attribute or a buffer|differs by"


def test_a_buffer_that_changes_begins_anew_for_each_client():
    assert_trains_as_plain_torch(made(lambda: RunningMean(True)), engines=EVERYWHERE, not_in_blocks=NOT_IN_BLOCKS)


def test_a_buffer_that_is_replaced_begins_anew_for_each_client():
    module = made(lambda: RunningMean(True, replaced=True))
    assert_trains_as_plain_torch(module, engines=EVERYWHERE, not_in_blocks=NOT_IN_BLOCKS)


def test_a_tensor_that_is_no_buffer_and_changes_begins_anew_for_each_client():
    for replaced in (False, True):
        module = made(lambda replaced=replaced: RunningMean(False, replaced))
        assert_trains_as_plain_torch(module, engines=EVERYWHERE, not_in_blocks=NOT_IN_BLOCKS)


def test_buffers_that_change_do_not_make_a_continued_run_another_one():
    module, federation = made(lambda: RunningMean(True)), labels()
    options = {"federation": federation, "model": module, "algorithm": "fedavg", "cohort": 4, "dtype": torch.float64}
    whole = simulate(**options, rounds=ROUNDS)
    half = simulate(**options, rounds=ROUNDS // 2)
    assert torch.equal(simulate(**options, rounds=ROUNDS, state=half.state).x, whole.x)


def test_a_buffer_that_shares_the_memory_of_a_parameter_is_refused():
    """In plain torch it would follow the parameter; in a copy with other memory it would not."""
    module = nn.Linear(4, 3)
    module.register_buffer("alias", module.weight.data)
    assert_refused(module, "'alias' shares memory with the parameter 'weight'")


def test_parameters_that_share_memory_are_refused():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    module[1].weight = nn.Parameter(module[0].weight.data[:3])
    assert_refused(module, r"'1\.weight' shares memory with the parameter '0\.weight'")
