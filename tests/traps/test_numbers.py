"""Parameters, outputs and losses that are not dense real numbers of the run's dtype, and modules without any."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import prune, weight_norm

from driftless import Federation, InputError, simulate
from traps.plain import AUTO, BLOCK, SINGLE, assert_refused, assert_trains_as_plain_torch, labels, made, run


class Rotated(nn.Module):
    """Uses the imaginary part of a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("phase", torch.polar(torch.ones(4), torch.arange(4.0)))

    def forward(self, inputs: Tensor) -> Tensor:
        turned = inputs * self.phase
        return self.layer((turned.real + turned.imag).to(inputs.dtype))


@pytest.mark.parametrize("engine", [SINGLE, AUTO, BLOCK])
def test_complex_buffers_keep_their_imaginary_parts(engine):
    class Real(Rotated):
        def forward(self, inputs: Tensor) -> Tensor:
            return self.layer(inputs * (self.phase.real + self.phase.imag))

    expected = run(made(Real), labels(), engine)
    torch.testing.assert_close(run(made(Rotated), labels(), engine), expected, rtol=0, atol=1e-6)


def test_complex_parameters_are_refused():
    module = made(lambda: nn.Linear(4, 3))
    module.phase = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    assert_refused(module, r"'phase' is torch\.complex64")


@pytest.mark.parametrize("engine", [SINGLE, AUTO, BLOCK])
@pytest.mark.parametrize("where", ["outputs", "loss"])
def test_a_run_in_float32_with_a_loss_in_float64(where: str, engine):
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.double() if where == "loss" else outputs, targets)

    class Double(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            outputs = super().forward(inputs)
            return outputs.double() if where == "outputs" else outputs

    x = run(made(lambda: Double(4, 3)), labels(), engine, loss=loss, dtype=torch.float32)
    expected = run(made(lambda: nn.Linear(4, 3)), labels(), engine, loss=F.cross_entropy, dtype=torch.float32)
    assert x.dtype == torch.float32
    torch.testing.assert_close(x, expected, rtol=0, atol=1e-5)


class Detached(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs).detach()


def test_outputs_that_do_not_depend_on_the_parameters_are_refused():
    assert_refused(made(lambda: Detached(4, 3)), r"Do the outputs depend on the parameters")


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.last = nn.Embedding(7, 5, sparse=True), nn.Linear(20, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.embedding(inputs.long()).flatten(1))


def test_sparse_gradients_of_an_embedding():
    clients = [(torch.arange(4 * n).view(n, 4) % 7, torch.arange(n) % 3) for n in (3, 7, 4)]
    federation = Federation.from_clients(clients, test=clients[0], classes=3)
    assert_trains_as_plain_torch(made(Sparse), federation=federation, not_in_blocks="vmap cannot lift it|differs")


def test_a_lazy_module_is_refused_until_it_has_been_called():
    module = made(lambda: nn.LazyLinear(3))
    with pytest.raises(InputError, match="'weight' has no shape yet"):
        simulate("fedavg", labels(), module, rounds=1, cohort=2)
    module(torch.zeros(2, 4))
    assert_trains_as_plain_torch(module)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_the_old_weight_norm_and_pruned_modules_are_refused_with_the_way_out():
    module = made(lambda: nn.Linear(4, 3))
    assert_refused(weight_norm(module), r"parametrizations\.weight_norm")
    module = made(lambda: nn.Linear(4, 3))
    assert_refused(prune.l1_unstructured(module, "weight", amount=2), r"prune\.remove")
    assert_trains_as_plain_torch(prune.remove(module, "weight"))


def test_a_module_that_cannot_be_copied_is_refused():
    module = made(lambda: nn.Linear(4, 3))
    module.generator = (number for number in range(3))
    assert_refused(module, "the model cannot be copied: TypeError")


def test_parameters_without_elements_and_of_one_number():
    class Odd(nn.Linear):
        def __init__(self) -> None:
            super().__init__(4, 3)
            self.scale, self.nothing = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.zeros(0, 3))

        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(inputs) * self.scale + self.nothing.sum()

    assert_trains_as_plain_torch(made(Odd))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_labels_of_any_whole_number_type(dtype: torch.dtype):
    federation = labels()
    clients = [federation.client(i) for i in range(4)]
    narrow = Federation.from_clients([(inputs, targets.to(dtype)) for inputs, targets in clients], classes=3)
    wide = Federation.from_clients(clients, classes=3)
    for engine in (SINGLE, BLOCK):
        assert torch.equal(*(run(made(lambda: nn.Linear(4, 3)), data, engine) for data in (narrow, wide)))
