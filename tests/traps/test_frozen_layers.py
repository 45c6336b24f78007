"""Layers that the user had put into eval(): frozen statistics, no dropout, as in a plain loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from driftless import Federation, simulate
from driftless.models import with_group_norm
from traps.plain import (
    AUTO,
    BLOCK,
    LOCAL,
    PROCESSES,
    SINGLE,
    assert_refused,
    assert_trains_as_plain_torch,
    labels,
    made,
    run,
    vector,
)

EVERYWHERE = (SINGLE, AUTO, PROCESSES)


def network(norm: Callable[[], nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 6, 3), norm(), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(24, 3))


def pretrained(norm: Callable[[], nn.Module], inputs: Tensor) -> nn.Module:
    """Whose statistics and parameters are not those of a new layer; in training mode."""
    module = made(lambda: network(norm))
    with torch.no_grad():
        for p in module[1].parameters():
            p += torch.linspace(-0.3, 0.5, len(p))
        module(3 * inputs + 1)
    module[4].p = 0.0  # the plain loop has torch's own dropout, which drops other units
    return module


def images() -> Federation:
    return labels(shape=(2, 4, 4))


NORMS = {
    "BatchNorm": lambda: nn.BatchNorm2d(6),
    "BatchNorm without scale": lambda: nn.BatchNorm2d(6, affine=False),
    "BatchNorm with a cumulative mean": lambda: nn.BatchNorm2d(6, momentum=None),
    "InstanceNorm": lambda: nn.InstanceNorm2d(6, affine=True, track_running_stats=True),
}


def frozen(norm: str, whole: bool = False) -> nn.Module:
    module = pretrained(NORMS[norm], images().inputs)
    (module if whole else module[1]).eval()
    return module


def as_given(module: nn.Module) -> None:
    """A loop that does not call train()."""


@pytest.mark.parametrize("norm", NORMS)
def test_a_layer_with_frozen_statistics_trains_as_in_a_plain_loop(norm: str):
    assert_trains_as_plain_torch(frozen(norm), federation=images(), engines=EVERYWHERE, train=as_given)


def test_frozen_statistics_stay_as_they_were_and_scale_and_shift_are_trained():
    module = frozen("BatchNorm")
    before = {name: value.clone() for name, value in module.state_dict().items()}
    for engine in (*EVERYWHERE, BLOCK):
        result = simulate("fedavg", images(), module, rounds=2, cohort=4, local=LOCAL, engine=engine)
        after = result.module()
        assert [part.training for part in after.modules()] == [part.training for part in module.modules()]
        for name in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
            assert torch.equal(after.state_dict()[name], before[name]), name
        assert not torch.equal(after.state_dict()["1.weight"], before["1.weight"])
        assert [event.what for event in result.events][:1] == ["layers in eval mode keep their statistics: 1"]


def test_scale_and_shift_that_need_no_gradient_are_neither_trained_nor_sent():
    module = frozen("BatchNorm").requires_grad_(True)
    for p in module[1].parameters():
        p.requires_grad_(False)
    assert_trains_as_plain_torch(module, federation=images(), engines=EVERYWHERE, train=as_given)
    assert len(vector(module)) == sum(p.numel() for p in module.parameters()) - 12


def train_all_but_the_statistics(module: nn.Module) -> None:
    module.train()
    module[1].eval()


def test_a_module_in_eval_mode_as_a_whole_is_trained_but_for_its_statistics():
    module = frozen("BatchNorm", whole=True)
    assert_trains_as_plain_torch(module, federation=images(), engines=EVERYWHERE, train=train_all_but_the_statistics)


def with_dropout(mode: str) -> nn.Module:
    """Of nn.Dropout, and of a layer of the user's own that asks for its mode."""

    class Noise(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs * 2 if self.training else inputs

    module = made(lambda: nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Dropout(0.5), Noise()), nn.Linear(8, 3)))
    {"a layer in eval mode": module[1], "all in eval mode": module, "all in training mode": nn.Identity()}[mode].eval()
    return module


def test_a_layer_in_eval_mode_inside_of_a_module_in_training_mode_stays_so():
    module = with_dropout("a layer in eval mode")
    assert_trains_as_plain_torch(module, engines=EVERYWHERE, train=as_given)
    evaluated = [run(module, labels(), engine, evaluate_every=1) for engine in (SINGLE, BLOCK)]
    not_evaluated = [run(module, labels(), engine, evaluate_every=0) for engine in (SINGLE, BLOCK)]
    assert all(map(torch.equal, evaluated, not_evaluated)), "evaluations have changed the mode of a layer"


def test_a_module_in_eval_mode_as_a_whole_is_trained_with_its_dropout():
    """As libraries return pretrained networks, and as a user leaves a module after evaluating it."""
    for engine in (SINGLE, BLOCK):
        whole, training, part = (
            run(with_dropout(mode), labels(), engine)
            for mode in ("all in eval mode", "all in training mode", "a layer in eval mode")
        )
        assert torch.equal(whole, training)
        assert not torch.equal(whole, part)


@pytest.mark.parametrize(
    ("mode", "events"),
    [
        (
            "a layer in eval mode",
            ["dropout layers in eval mode drop nothing: 1; to train with them, call train() on the model"],
        ),
        ("all in eval mode", []),
        ("all in training mode", []),
    ],
)
def test_dropout_that_stays_in_eval_mode_is_an_event(mode: str, events: list[str]):
    """peft puts a wrapper in training mode around a pretrained network in eval mode."""
    result = simulate("fedavg", labels(), with_dropout(mode), rounds=1, cohort=4, local=LOCAL, engine=SINGLE)
    assert [event.what for event in result.events] == events


def test_batch_norm_in_training_mode_is_refused_and_its_conversion_is_trained():
    module = pretrained(NORMS["BatchNorm"], images().inputs)
    assert_refused(module, r"BatchNorm2d in training mode.*with_group_norm\(module\)", federation=images())
    assert_trains_as_plain_torch(with_group_norm(module), federation=images(), engines=EVERYWHERE)


def test_a_part_of_a_frozen_part_that_is_in_training_mode_is_refused_if_it_has_statistics():
    module = nn.Sequential(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), nn.Linear(6, 3))
    module[0].eval()
    module[0][1].train()
    assert_refused(module, "layer '0.1' is a BatchNorm1d in training mode")
