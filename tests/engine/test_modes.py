"""Which layers with batch statistics are refused, and what the message offers; tests/traps has whole runs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from driftless import InputError
from driftless.engine.flat import FlatModel

NORMS = [nn.BatchNorm1d(4), nn.SyncBatchNorm(4), nn.InstanceNorm1d(4, track_running_stats=True)]


def around(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Tanh(), norm))


@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: type(norm).__name__)
def test_running_statistics_in_training_mode_are_refused_with_what_to_do(norm: nn.Module):
    with pytest.raises(InputError) as error:
        FlatModel(around(norm.train()), torch.float64)
    instead = "track_running_stats=False" if isinstance(norm, nn.InstanceNorm1d) else "with_group_norm(module)"
    for part in ("'1.1'", type(norm).__name__, "in training mode", "running statistics", "call eval() on it", instead):
        assert part in str(error.value)


@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: type(norm).__name__)
def test_running_statistics_in_eval_mode_are_accepted_and_named(norm: nn.Module):
    assert FlatModel(around(norm.eval()), torch.float64).frozen_statistics == ["1.1"]


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_without_running_statistics_is_refused_in_every_mode(training: bool):
    """It ties an example to the others of its batch, also to padding: a block would not equal single clients."""
    module = around(nn.BatchNorm1d(4, track_running_stats=False).train(training))
    with pytest.raises(InputError, match=r"without running statistics.*with_group_norm\(module\).*GroupNorm") as error:
        FlatModel(module, torch.float64)
    assert "eval()" not in str(error.value)


def test_a_module_that_is_a_batch_norm_itself_is_named_by_its_type():
    with pytest.raises(InputError, match="layer 'BatchNorm1d' is a BatchNorm1d"):
        FlatModel(nn.BatchNorm1d(4), torch.float64)
    assert FlatModel(nn.BatchNorm1d(4).eval(), torch.float64).size == 8


def test_a_module_that_puts_its_own_layers_into_eval_mode_when_it_is_trained_is_accepted():
    class KeepsStatistics(nn.Sequential):
        def train(self, mode: bool = True):
            super().train(mode)
            self[1].eval()
            return self

    model = FlatModel(KeepsStatistics(nn.Linear(4, 4), nn.BatchNorm1d(4)), torch.float64)
    assert model.frozen_statistics == ["1"]
