from __future__ import annotations

import copy
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from driftless import InputError, LocalTraining
from driftless.engine.flat import FlatModel
from engine.problems import classification, linear, network, regression, run, seeded, vector


def random_vector(size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def filled(module: nn.Module, x: torch.Tensor) -> nn.Module:
    """A copy of the module with the vector's values, without the help of flat.py."""
    twin = copy.deepcopy(module).double()
    start = 0
    with torch.no_grad():
        for p in twin.parameters():
            if p.requires_grad:
                p.copy_(x[start : start + p.numel()].reshape(p.shape))
                start += p.numel()
    assert start == len(x)
    return twin


class Tied(nn.Module):
    """A decoder that is the transposed encoder, and an encoder that has a second name."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(4, 2, bias=False)
        self.again = nn.Linear(4, 2, bias=True)
        self.again.weight = self.encode.weight

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return F.linear(self.encode(inputs) * self.again(inputs), self.encode.weight.T)


@settings(max_examples=30, deadline=None)
@given(widths=st.lists(st.integers(1, 5), min_size=2, max_size=4), bias=st.booleans(), seed=st.integers(0, 9))
def test_a_module_becomes_a_vector_and_back(widths: list[int], bias: bool, seed: int):
    pairs = itertools.pairwise(widths)
    module = seeded(lambda: nn.Sequential(*[nn.Linear(a, b, bias=bias) for a, b in pairs]), seed)
    model = FlatModel(module, torch.float64)
    assert torch.equal(model.initial, vector(module))
    assert model.size == len(model.initial)
    x = random_vector(model.size, seed)
    back = model.fill(x)
    assert torch.equal(vector(back), x)
    parameters = model.parameters(x)
    assert torch.equal(torch.cat([part.flatten() for part in parameters.values()]), x)
    assert {name: p.shape for name, p in parameters.items()} == {name: p.shape for name, p in back.named_parameters()}


def test_layers_are_the_parameter_tensors_in_order_without_gaps():
    model = FlatModel(nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 4, bias=False)), torch.float64)
    assert model.names == ("0.weight", "0.bias", "2.weight")
    assert model.layers == (slice(0, 6), slice(6, 8), slice(8, 16))


def test_the_vectors_parts_are_views_and_not_copies():
    model = FlatModel(linear(), torch.float64)
    x = torch.zeros(model.size, dtype=torch.float64)
    model.parameters(x)["0.weight"][0, 1] = 7.0
    assert x.tolist() == [0, 7, 0, 0]


@pytest.mark.parametrize("make", [network, lambda: seeded(Tied)], ids=["network", "tied weights"])
def test_outputs_and_gradients_are_those_of_a_module_with_these_values(make):
    module = make()
    model = FlatModel(module, torch.float64)
    x, inputs = random_vector(model.size).requires_grad_(), random_vector(20, seed=1).reshape(5, 4)
    twin = filled(module, x.detach())
    model.resident.load(x.detach())
    assert torch.equal(model.resident.evaluate(inputs), twin.eval()(inputs))
    assert torch.equal(model.resident.outputs(inputs), twin.train()(inputs))
    assert torch.equal(model.train(model.parameters(x), inputs, None), twin(inputs))
    (model.train(model.parameters(x), inputs, None) ** 2).sum().backward()
    (twin(inputs) ** 2).sum().backward()
    torch.testing.assert_close(x.grad, torch.cat([p.grad.flatten() for p in twin.parameters()]), rtol=0, atol=1e-12)


def test_tied_weights_are_one_part_of_the_vector_and_stay_tied():
    module = seeded(Tied)
    model = FlatModel(module, torch.float64)
    assert model.names == ("encode.weight", "again.bias")
    back = model.fill(random_vector(model.size))
    assert back.again.weight is back.encode.weight
    assert torch.equal(back.again.weight.flatten(), random_vector(model.size)[:8])


def test_frozen_parameters_and_buffers_are_constants_of_a_run():
    module = network()
    module[0].weight.requires_grad_(False)
    module.register_buffer("scale", torch.tensor(3.0))
    frozen = module[0].weight.clone()
    model = FlatModel(module, torch.float64)
    assert model.names == ("0.bias", "3.weight", "3.bias")
    assert model.size == 6 + 18 + 3
    result, _ = run("fedavg", classification([4, 5]), module)
    trained = result.module()
    assert torch.equal(trained[0].weight, frozen)
    assert not trained[0].weight.requires_grad
    assert torch.equal(trained.scale, torch.tensor(3.0, dtype=torch.float64))
    assert not torch.equal(trained[3].weight, module[3].weight)


def test_a_module_without_a_trainable_parameter_is_refused():
    module = linear()
    for p in module.parameters():
        p.requires_grad_(False)
    with pytest.raises(InputError, match=r"no trainable parameter.*requires_grad=True"):
        FlatModel(module, torch.float64)


@pytest.mark.parametrize("training", [True, False])
def test_the_users_module_is_never_changed(training: bool):
    module = network(dropout=0.5).train(training)
    before = copy.deepcopy(module.state_dict())
    parts = list(module.modules())
    result, _ = run("scaffold", classification([4, 5]), module, engine="single", dtype=torch.float32)
    result.module()
    assert list(module.modules()) == parts
    assert type(module[2]) is nn.Dropout
    assert all(part.training is training for part in parts)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
        assert value.dtype == torch.float64
    assert all(p.grad is None and p.requires_grad for p in module.parameters())


def test_the_trained_module_is_the_users_class_with_the_evaluated_values():
    module = network(dropout=0.5)
    result, _ = run("adabest", classification([4, 5]), module)
    trained = result.module()
    assert [type(part) for part in trained] == [type(part) for part in module]
    assert torch.equal(vector(trained), result.inference)
    assert not torch.equal(result.inference, result.x)
    first, second = result.module(), result.module()
    assert not any(p is q for p, q in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parameters_and_buffers_are_converted_to_the_runs_dtype(dtype: torch.dtype):
    module = nn.Sequential(nn.Linear(3, 1))
    module.register_buffer("scale", torch.tensor(3.0, dtype=torch.float64))
    model = FlatModel(module, dtype)
    assert model.initial.dtype == dtype
    assert model.resident.evaluate(torch.zeros(2, 3, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize(
    "norm",
    [nn.LayerNorm(6), nn.GroupNorm(2, 6), nn.InstanceNorm1d(6, affine=True)],
    ids=lambda norm: type(norm).__name__,
)
def test_normalisation_within_an_example_is_fine_and_engines_agree(norm: nn.Module):
    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(4, 6), norm, nn.Linear(6, 3)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            hidden = self.first(inputs)
            if isinstance(self.norm, nn.InstanceNorm1d):
                hidden = self.norm(torch.stack([hidden, hidden**2], -1)).sum(-1)
            else:
                hidden = self.norm(hidden)
            return self.last(hidden.tanh())

    module, federation = seeded(Normalised), classification([3, 5, 4])
    local = LocalTraining(lr=0.1, epochs=2, batch_size=3)
    block, _ = run("fedavg", federation, module, local=local)
    single, _ = run("fedavg", federation, module, local=local, engine="single")
    torch.testing.assert_close(block.x, single.x, rtol=0, atol=1e-12)
    assert not torch.equal(block.x, vector(module))


def test_a_model_of_the_users_own_class_trains_with_both_engines():
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return torch.einsum("bf,f->b", inputs, self.weight)

    federation = regression([4, 6])
    for engine in ("single", "block"):
        result, _ = run("fedavg", federation, Own().double(), engine=engine, rounds=60)
        assert result.history["train_loss"][-1] < 0.5 * result.history["train_loss"][0]
