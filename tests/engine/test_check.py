"""Before a run the engine's gradients are compared with plain torch: what differs is trained one by one, or refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from driftless import Federation, InputError, LocalTraining
from driftless.algorithms import FedAvg
from driftless.engine.check import try_block
from driftless.engine.flat import FlatModel
from driftless.engine.losses import cross_entropy
from driftless.engine.minibatches import Workload
from engine.problems import classification, linear, network, regression, run, seeded, vector

LOCAL = LocalTraining(lr=0.1, epochs=2, batch_size=3)


def plain_round(federation: Federation, module: nn.Module, loss: Any) -> Tensor:
    """One full-batch step of every client and the mean weighted by examples, in plain torch."""
    total, x = torch.zeros_like(vector(module)), copy.deepcopy(module.state_dict())
    for client in range(federation.clients):
        inputs, targets = federation.client(client)
        module.load_state_dict(x)
        module.zero_grad()
        loss(module(inputs.clone()), targets).backward()
        with torch.no_grad():
            for p in module.parameters():
                p -= 0.1 * p.grad
        total += len(inputs) * vector(module)
    module.load_state_dict(x)
    return total / federation.sizes.sum()


def assert_trains_as_plain_torch(module: nn.Module, loss: Any = F.cross_entropy, kind: str = "single") -> None:
    federation = classification([3, 5, 4])
    options: dict[str, Any] = {"local": LocalTraining(lr=0.1, steps=1), "rounds": 1}
    result, _ = run("fedavg", federation, module, loss=loss, engine="auto", **options)
    assert result.engine["kind"] == kind
    torch.testing.assert_close(result.x, plain_round(federation, module, loss), rtol=0, atol=1e-12)


# --- models and losses that blocks do not admit


def test_class_weights_are_not_lost_in_padded_blocks_although_the_last_layer_is_zero():
    module = network()
    nn.init.zeros_(module[3].weight)
    nn.init.zeros_(module[3].bias)
    weights = torch.tensor([1.0, 5.0, 0.1], dtype=torch.float64)
    assert_trains_as_plain_torch(module, lambda outputs, targets: F.cross_entropy(outputs, targets, weights))


def test_ignored_labels_are_not_lost_in_padded_blocks():
    assert_trains_as_plain_torch(network(), lambda outputs, targets: F.cross_entropy(outputs, targets, ignore_index=2))


def test_a_loss_that_is_not_a_mean_over_examples_is_trained_one_by_one():
    def mean_and_variance(outputs: Tensor, targets: Tensor) -> Tensor:
        each = F.cross_entropy(outputs, targets, reduction="none")
        return each.mean() + each.var(correction=0)

    assert_trains_as_plain_torch(network(), mean_and_variance)


class BatchCentred(nn.Module):
    """Statistics of the batch, written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs)
        return self.last((hidden - hidden.mean(0)).tanh())


def test_a_model_that_mixes_the_examples_of_a_batch_is_trained_one_by_one():
    assert_trains_as_plain_torch(seeded(BatchCentred))


class Counting(nn.Module):
    """Other arithmetic in every second call, by an attribute of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 3), 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return self.layer(inputs) * (1 + self.calls % 2)


def trial(module: nn.Module, loss: Any = cross_entropy) -> str | None:
    """Why the module cannot be trained in blocks."""
    model, federation = FlatModel(module, torch.float64), classification([3, 5, 4])
    return try_block(Workload(FedAvg(), model, loss, LOCAL, federation, seed=0)).problem


def test_a_model_that_changes_an_attribute_of_its_own_cannot_be_trained_in_blocks():
    assert trial(seeded(Counting)) == "the model changes an attribute of its own in each call"


def test_a_model_whose_equal_calls_differ_cannot_be_trained_in_blocks():
    calls = [0]

    class Hidden(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            calls[0] += 1
            return super().forward(inputs) * (1 + calls[0] % 2)

    assert trial(seeded(lambda: Hidden(4, 3))) == "equal calls give different results"


def test_the_difference_that_excludes_blocks_is_named():
    weights = torch.tensor([1.0, 5.0, 0.1], dtype=torch.float64)
    problem = trial(network(), lambda outputs, targets: F.cross_entropy(outputs, targets, weights))
    assert problem is not None
    assert "minibatch the gradient of '0.weight' differs by" in problem


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_an_ordinary_network_can_be_trained_in_blocks(dropout: float):
    assert trial(network(dropout=dropout)) is None


# --- what plain torch does, the single engine does


class Checkpointed(nn.Module):
    """Its activations are computed again in the backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.last, self.reentrant = nn.Linear(4, 6), nn.Linear(6, 3), reentrant

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = checkpoint(lambda values: self.first(values).tanh(), inputs, use_reentrant=self.reentrant)
        return self.last(hidden)


def test_activation_checkpointing_is_computed_at_the_clients_own_model():
    module, federation = seeded(lambda: Checkpointed(False)), classification([3, 5, 4])
    same = network()
    vector_of = vector(module)
    with torch.no_grad():
        start = 0
        for p in same.parameters():
            p.copy_(vector_of[start : start + p.numel()].view_as(p))
            start += p.numel()
    checkpointed, _ = run("fedavg", federation, module, local=LOCAL, engine="auto")
    plain, _ = run("fedavg", federation, same, local=LOCAL, engine="single")
    torch.testing.assert_close(checkpointed.x, plain.x, rtol=0, atol=1e-12)


class Remembering(nn.Module):
    """Keeps its first layer's weight in a list, too, and has a hook on a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)
        self.kept = [self.first.weight]
        self.first.register_forward_hook(lambda layer, inputs, outputs: 2 * outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.first(inputs).tanh()) * self.kept[0].sum()


def test_kept_references_and_hooks_of_layers_work():
    assert_trains_as_plain_torch(seeded(Remembering), kind="single")


class WritesBuffer(nn.Module):
    """A running mean that its forward pass uses and changes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(4, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.mean.mul_(0.5).add_(inputs.detach().mean(0))
        return self.layer(inputs - self.mean)


def test_buffers_that_a_forward_pass_changes_begin_anew_for_every_client():
    federation, module = classification([4, 4, 4, 4]), seeded(WritesBuffer)
    one, _ = run("fedavg", federation, module, local=LOCAL, engine="auto", cohort=[[0, 1, 2, 3], [2, 1, 0, 3]])
    two, _ = run("fedavg", federation, module, local=LOCAL, engine="auto", cohort=[[3, 1, 2, 0], [0, 1, 2, 3]])
    assert one.engine["kind"] == "single"
    assert torch.equal(one.x, two.x)
    assert not module.mean.any()
    several, _ = run(
        "fedavg", federation, module, local=LOCAL, engine="single", workers=2, cohort=[[0, 1, 2, 3], [2, 1, 0, 3]]
    )
    assert torch.equal(one.x, several.x)


class Clamping(nn.Module):
    """Writes into its parameter in every forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            self.layer.weight.clamp_(-0.1, 0.1)
        return self.layer(inputs)


def test_a_forward_pass_that_writes_into_its_parameters_does_not_change_the_server():
    federation, module = classification([3, 5, 4]), seeded(Clamping)
    often, _ = run("fedavg", federation, module, engine="auto", rounds=3)
    never, _ = run("fedavg", federation, module, engine="auto", rounds=3, evaluate_every=0)
    assert often.engine["kind"] == "single"
    assert torch.equal(often.x, never.x)


def test_a_layer_that_writes_over_the_inputs_changes_neither_the_data_nor_mimes_second_gradient():
    module = seeded(lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 3)))
    other = seeded(lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 3)))
    federation = classification([3, 5, 4])
    before = [part.clone() for part in (federation.inputs, *federation.test)]
    for engine in ("single", "block"):
        one, _ = run("mime", federation, module, local=LOCAL, engine=engine)
        two, _ = run("mime", federation, other, local=LOCAL, engine=engine)
        assert torch.equal(one.x, two.x)
    assert all(map(torch.equal, before, (federation.inputs, *federation.test)))


def test_complex_buffers_keep_their_imaginary_parts():
    class Rotated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)
            self.register_buffer("phase", torch.polar(torch.ones(4), torch.arange(4.0)).to(torch.complex128))

        def forward(self, inputs: Tensor) -> Tensor:
            turned = inputs * self.phase
            return self.layer(turned.real + turned.imag)

    assert_trains_as_plain_torch(seeded(Rotated), kind="block")


# --- refused, with the reason


def test_a_loss_that_depends_on_the_users_module_is_refused():
    module = network()

    def regularised(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets) + 0.1 * module[0].weight.square().sum()

    with pytest.raises(InputError, match=r"the loss depends on the module.*'0\.weight'"):
        run("fedavg", classification([3, 5, 4]), module, loss=regularised)
    assert all(p.grad is None for p in module.parameters())


def test_a_parameter_with_a_hook_is_refused():
    module = network()
    module[0].weight.register_hook(lambda g: 2 * g)
    with pytest.raises(InputError, match=r"'0\.weight': the parameter has a hook"):
        run("fedavg", classification([3, 5, 4]), module)


def test_complex_parameters_are_refused():
    module = linear()
    module.phase = nn.Parameter(torch.zeros(2, dtype=torch.complex128))
    with pytest.raises(InputError, match=r"'phase' is torch\.complex128"):
        run("fedavg", regression([3, 4]), module)


@pytest.mark.parametrize("training", [True, False])
def test_the_check_leaves_the_users_module_as_it_was(training: bool):
    module = seeded(WritesBuffer).train(training)
    module.layer.weight.grad = torch.ones_like(module.layer.weight)
    before, pointers = copy.deepcopy(module.state_dict()), [p.data_ptr() for p in module.parameters()]
    run("fedavg", classification([3, 5, 4]), module, engine="auto", dtype=torch.float32)
    assert module.training is training
    assert torch.equal(module.layer.weight.grad, torch.ones_like(module.layer.weight))
    assert module.layer.bias.grad is None
    assert [p.data_ptr() for p in module.parameters()] == pointers
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
        assert value.dtype == torch.float64
