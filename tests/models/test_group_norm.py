from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from driftless import InputError
from driftless.models import with_group_norm


def network() -> nn.Module:
    """Statistics, scale and shift that are not those of new layers."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64, eps=1e-3), nn.ReLU(),
        nn.Sequential(nn.Conv2d(64, 6, 3), nn.BatchNorm2d(6, affine=False)), nn.Flatten(),
        nn.Linear(96, 32), nn.BatchNorm1d(32),
    )  # fmt: skip
    with torch.no_grad():
        module[1].weight += torch.randn(64)
        module[1].bias += torch.randn(64)
        module(torch.randn(5, 3, 8, 8))
    return module


def test_each_batch_norm_becomes_a_group_norm_with_its_scale_and_shift_and_the_module_is_as_it_was():
    module = network()
    before = copy.deepcopy(module.state_dict())
    result = with_group_norm(module)
    first, inner, last = result[1], result[3][1], result[6]
    assert [type(part) for part in (first, inner, last)] == [nn.GroupNorm] * 3
    assert (first.num_groups, inner.num_groups, last.num_groups) == (32, 3, 1)
    assert (first.eps, inner.affine, last.num_channels) == (1e-3, False, 32)
    assert torch.equal(first.weight, module[1].weight)
    assert first.weight is not module[1].weight
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert type(module[1]) is nn.BatchNorm2d
    inputs = torch.randn(4, 3, 8, 8)
    after_conv = module[0](inputs)
    expected = nn.functional.group_norm(after_conv, 32, module[1].weight, module[1].bias, 1e-3)
    assert torch.equal(first(result[0](inputs)), expected)


@pytest.mark.parametrize(("channels", "groups"), [(1, 1), (2, 1), (3, 1), (16, 8), (48, 24), (62, 31), (2048, 32)])
def test_by_default_the_groups_are_the_largest_divisor_up_to_32_with_two_channels_each(channels: int, groups: int):
    assert with_group_norm(nn.BatchNorm2d(channels)).num_groups == groups
    assert with_group_norm(nn.BatchNorm3d(channels)).num_groups == groups


def test_the_number_of_groups_can_be_given_and_must_divide_the_channels():
    assert with_group_norm(network(), groups=2)[1].num_groups == 2
    with pytest.raises(InputError, match=r"'3.1' is a BatchNorm2d of 6 channels, which groups=4 does not divide"):
        with_group_norm(network(), groups=4)
    for wrong in (0, 1.5, "2", True):
        with pytest.raises(InputError, match="groups must be a whole number of at least 1"):
            with_group_norm(network(), groups=wrong)
    with pytest.raises(InputError, match=r"module must be an nn\.Module"):
        with_group_norm(nn.BatchNorm2d)


def test_a_layer_that_stands_in_two_places_stays_one_and_frozen_parameters_stay_frozen():
    norm = nn.BatchNorm2d(4).requires_grad_(False).eval()
    result = with_group_norm(nn.Sequential(norm, nn.ReLU(), norm))
    assert result[0] is result[2]
    assert not result[0].weight.requires_grad
    assert not result[0].training


def test_a_subclass_with_a_forward_of_its_own_is_left_to_the_user():
    class WithActivation(nn.BatchNorm2d):
        def forward(self, input):
            return super().forward(input).relu()

    with pytest.raises(InputError, match=r"'0' is a WithActivation, which may do more.*replace it yourself"):
        with_group_norm(nn.Sequential(WithActivation(4)))


def test_a_lazy_layer_must_have_seen_a_batch():
    with pytest.raises(InputError, match=r"'0.weight' has no shape yet .*; call the module on a batch first"):
        with_group_norm(nn.Sequential(nn.LazyBatchNorm2d()))
