"""Modules that something else refers to, or that refer to themselves in unusual ways."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from driftless import InputError, simulate
from traps.plain import LOCAL, SINGLE, assert_refused, assert_trains_as_plain_torch, labels, made


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.first(inputs).tanh())


class Checkpointed(TwoLayers):
    """Computes its activations again in the backward pass."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(checkpoint(lambda values: self.first(values).tanh(), inputs, use_reentrant=False))


class CheckpointedDropout(Checkpointed):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(checkpoint(lambda values: self.drop(self.first(values).tanh()), inputs, use_reentrant=False))


def test_activation_checkpointing():
    assert_trains_as_plain_torch(made(Checkpointed), not_in_blocks="vmap cannot lift it|differs by")


def test_activation_checkpointing_with_dropout_drops_the_same_units_both_times():
    class Plain(CheckpointedDropout):
        def forward(self, inputs: Tensor) -> Tensor:
            return self.last(self.drop(self.first(inputs).tanh()))

    options = {"rounds": 3, "cohort": 4, "local": LOCAL, "engine": SINGLE, "dtype": torch.float64}
    one, two = (simulate("fedavg", labels(), made(kind), **options).x for kind in (CheckpointedDropout, Plain))
    torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def test_a_dropout_that_is_used_twice_with_activation_checkpointing_is_refused():
    class Twice(CheckpointedDropout):
        def forward(self, inputs: Tensor) -> Tensor:
            hidden = checkpoint(lambda values: self.drop(self.first(values).tanh()), inputs, use_reentrant=False)
            return self.last(self.drop(hidden))

    with pytest.raises(InputError, match="is used 2 times in a forward pass with activation checkpointing"):
        simulate("fedavg", labels(), made(Twice), rounds=1, cohort=4, local=LOCAL, engine=SINGLE)


class KeepsReferences(TwoLayers):
    """A parameter in a list, a layer under two names, a hook of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.kept, self.again = [self.first.weight], self.last
        self.first.register_forward_hook(lambda layer, inputs, outputs: 2 * outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.again(self.first(inputs).tanh()) * self.kept[0].sum()


def test_references_that_the_module_keeps_and_hooks_of_its_layers():
    why = "differs by|changes an attribute or a buffer"
    assert_trains_as_plain_torch(made(KeepsReferences), not_in_blocks=why)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.second.weight = self.first.weight

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.second(self.first(inputs).tanh()).tanh())


def test_a_weight_in_two_places_is_one_parameter():
    assert_trains_as_plain_torch(made(Tied))


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
def test_parametrised_weights():
    module = made(TwoLayers)
    nn.utils.parametrizations.weight_norm(module.first)
    assert_trains_as_plain_torch(module)


def test_spectral_norm_whose_power_iteration_changes_buffers():
    module = made(TwoLayers)
    with torch.random.fork_rng():
        nn.utils.parametrizations.spectral_norm(module.first)
    why = "vmap cannot lift it|changes an attribute or a buffer|equal calls"
    assert_trains_as_plain_torch(module, not_in_blocks=why)


def test_a_loss_that_regularises_the_users_module_is_refused():
    module = made(TwoLayers)

    def regularised(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets) + 0.1 * module.first.weight.square().sum()

    assert_refused(module, r"the loss depends on the module.*'first\.weight'", regularised)
    assert all(p.grad is None for p in module.parameters())


def test_a_hook_of_a_parameter_is_refused():
    module = made(TwoLayers)
    module.first.weight.register_hook(lambda g: 2 * g)
    assert_refused(module, r"'first\.weight': the parameter has a hook")


def test_a_hook_that_computes_with_the_users_own_module_is_refused():
    module = made(TwoLayers)
    module.first.register_forward_hook(lambda layer, inputs, outputs: outputs * module.last.weight.sum())
    assert_refused(module, "the loss depends on the module that was given|has another gradient")


def test_gradients_that_a_forward_pass_throws_away_are_refused():
    class Forgetful(TwoLayers):
        def forward(self, inputs: Tensor) -> Tensor:
            self.zero_grad(set_to_none=True)
            return super().forward(inputs)

    assert_refused(made(Forgetful), "has another gradient", engines=(SINGLE,))


def test_a_module_whose_copy_is_itself_is_refused():
    class Singleton(nn.Linear):
        def __deepcopy__(self, memo: object) -> nn.Module:
            return self

    assert_refused(made(lambda: Singleton(4, 3)), "returns its own parameters")


def test_the_trained_module_has_its_parameters_behind_a_hook_that_renames_them():
    module = made(TwoLayers)
    module._register_state_dict_hook(
        lambda part, state, prefix, metadata: {f"{prefix}renamed.{name}": value for name, value in state.items()}
    )
    result = simulate("fedavg", labels(), module, rounds=2, cohort=4, local=LOCAL)
    trained = torch.cat([p.detach().flatten() for p in result.module().parameters()])
    assert torch.equal(trained, result.x)


def test_the_trained_module_does_not_follow_what_the_user_does_to_the_module_later():
    module = made(TwoLayers)
    module.register_buffer("scale", torch.ones(1))
    module.last.bias.requires_grad_(False)
    before = copy.deepcopy(module)
    result = simulate("fedavg", labels(), module, rounds=1, cohort=4, local=LOCAL)
    with torch.no_grad():
        for value in (*module.parameters(), *module.buffers()):
            value.fill_(7)
    assert torch.equal(result.module().last.bias, before.last.bias)
    assert torch.equal(result.module().scale, before.scale)
