"""Models and algorithms that do something else from call to call."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from torch import Tensor, nn
from torch.nn import functional as F

from driftless import Algorithm, InputError, Model
from traps.plain import AUTO, BLOCK, PROCESSES, SINGLE, assert_trains_as_plain_torch, labels, made, run

EVERYWHERE = (SINGLE, AUTO, PROCESSES)
NOT_IN_BLOCKS = "changes an attribute or a buffer|equal calls give different results"


class Counting(nn.Module):
    def __init__(self, factor) -> None:
        super().__init__()
        self.layer, self.calls, self.factor = nn.Linear(4, 3), 0, factor

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        return self.layer(inputs) * self.factor(self.calls)


FACTORS = {
    "after some calls": lambda calls: 1.0 if calls < 3 else 0.5,
    "every third call": lambda calls: 2.0 if calls % 3 == 0 else 1.0,
    "ever smaller": lambda calls: 1 / calls,
}


@pytest.mark.parametrize("factor", FACTORS)
def test_a_counter_of_the_module_begins_anew_for_each_client(factor: str):
    module = made(lambda: Counting(lambda calls: FACTORS[factor](max(calls, 1))))
    assert_trains_as_plain_torch(module, engines=EVERYWHERE, not_in_blocks=NOT_IN_BLOCKS)


class Remembering(nn.Module):
    """Keeps what it has computed in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.seen = nn.Linear(4, 3), []

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.seen.append(len(inputs))
        return self.layer(inputs) / (1 + len(self.seen))


def test_a_list_of_the_module_begins_anew_for_each_client():
    assert_trains_as_plain_torch(made(Remembering), engines=EVERYWHERE, not_in_blocks=NOT_IN_BLOCKS)


def test_a_counter_outside_of_the_module_that_blocks_would_not_see_ends_the_run():
    calls = [0]

    class Late(nn.Linear):
        """Other arithmetic from the 40th call on: after the check and after the recordings."""

        def forward(self, inputs: Tensor) -> Tensor:
            calls[0] += 1
            return super().forward(inputs) * (1.0 if calls[0] < 40 else 0.5)

    with pytest.raises(InputError, match="a replayed local step differs from the step as written"):
        run(made(lambda: Late(4, 3)), labels(), BLOCK, rounds=300)


@dataclass(frozen=True)
class Stateful(Algorithm):
    """Keeps a count in itself, where it depends on who trains which client when."""

    calls: list[int] = field(default_factory=list)

    def direction(self, step, local, msg, client, r):
        self.calls.append(1)
        return step.g / len(self.calls), local

    def update(self, server, mean, r):
        return Model(server.x + mean.delta)


@pytest.mark.parametrize("engine", [SINGLE, AUTO, BLOCK, PROCESSES])
def test_an_algorithm_that_keeps_state_in_itself_is_refused_in_the_first_round(engine):
    rounds: list[object] = []
    with pytest.raises(InputError, match=r"Stateful changes its own attribute 'calls'.*NamedTuple"):
        run(made(lambda: nn.Linear(4, 3)), labels(), engine, algorithm=Stateful(), on_round=rounds.append)
    assert rounds == []


def test_a_loss_with_a_counter_is_refused():
    calls = [0]

    def warming_up(outputs: Tensor, targets: Tensor) -> Tensor:
        calls[0] += 1
        return F.cross_entropy(outputs, targets) * min(1.0, calls[0] / 50)

    for engine in (SINGLE, AUTO, BLOCK):
        with pytest.raises(InputError, match="or it computes something else in each call"):
            run(made(lambda: nn.Linear(4, 3)), labels(), engine, loss=warming_up)
