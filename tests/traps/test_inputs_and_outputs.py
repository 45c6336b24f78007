"""Models with several inputs, and models that return more than one tensor."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from driftless import EngineSettings, Federation, simulate
from driftless.algorithms import FedAvg
from driftless.cost.measure import measure
from traps.plain import AUTO, BLOCK, LOCAL, PROCESSES, SINGLE, assert_trains_as_plain_torch, made, run

ENGINES = (SINGLE, AUTO, PROCESSES, EngineSettings("block", workers=2, block_size=2))


class Returned(NamedTuple):
    logits: Tensor
    hidden: Tensor


class Text(nn.Module):
    """The mean of the words that the mask keeps."""

    def __init__(self, dropout: float = 0.0, writes: bool = False) -> None:
        super().__init__()
        self.words, self.dropout, self.last = nn.Embedding(13, 4), nn.Dropout(dropout), nn.Linear(4, 3)
        self.writes = writes

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        if self.writes:
            ids.mul_(2)
        kept = mask.unsqueeze(-1).to(self.last.weight.dtype)
        mean = (self.words(ids) * kept).sum(1) / kept.sum(1)
        return self.last(self.dropout(mean))


class TextOfObjects(Text):
    def forward(self, ids: Tensor, mask: Tensor) -> Any:
        hidden = super().forward(ids, mask)
        return Returned(hidden.tanh(), hidden)


def clients(sizes: tuple[int, ...] = (3, 7, 4, 5)) -> list[tuple[dict[str, Tensor], Tensor]]:
    generator = torch.Generator().manual_seed(0)
    data = []
    for n in sizes:
        ids = torch.randint(0, 7, (n, 5), generator=generator)
        length = torch.randint(1, 6, (n, 1), generator=generator)
        data.append(({"mask": torch.arange(5) < length, "ids": ids}, torch.randint(0, 3, (n,), generator=generator)))
    return data


def as_dict(**options: Any) -> Federation:
    return Federation.from_clients(clients(), test=clients()[1], classes=3, **options)


def as_tuple() -> Federation:
    own = [((inputs["ids"], inputs["mask"]), targets) for inputs, targets in clients()]
    return Federation.from_clients(own, test=own[1], classes=3)


@pytest.mark.parametrize("federation", [as_dict(), as_tuple()], ids=["dict", "tuple"])
def test_several_inputs_train_as_in_a_plain_loop(federation: Federation):
    assert_trains_as_plain_torch(made(Text), F.cross_entropy, federation, ENGINES)


def test_a_tensor_taken_out_of_what_the_model_returns_is_trained_on():
    module = made(TextOfObjects)
    assert_trains_as_plain_torch(module, F.cross_entropy, as_dict(), ENGINES, output=lambda o: o.logits)
    logits, hidden = (run(module, as_dict(), SINGLE, output=take) for take in (lambda o: o.logits, lambda o: o.hidden))
    assert not torch.equal(logits, hidden)


def test_a_model_that_writes_over_one_of_its_inputs_leaves_the_data_as_they_were():
    assert_trains_as_plain_torch(made(lambda: Text(writes=True)), F.cross_entropy, as_dict(), (SINGLE, AUTO))


@pytest.mark.parametrize("algorithm", ["mime", "scaffold", "mimelite"])
def test_all_gradients_of_an_algorithm_see_several_inputs(algorithm: str):
    """At the server's model, of all examples, of the minibatch; with dropout."""
    module = made(lambda: Text(dropout=0.5))
    single, block, workers = (
        run(module, as_dict(), engine, algorithm=algorithm)
        for engine in (SINGLE, BLOCK, EngineSettings("block", workers=2, block_size=2))
    )
    torch.testing.assert_close(block, single, rtol=0, atol=1e-12)
    torch.testing.assert_close(workers, single, rtol=0, atol=1e-12)


def test_all_data_sets_are_evaluated_as_in_plain_torch():
    own_test = [*clients((2, 3, 1)), None]
    federation = as_dict(client_test=own_test, validation=1).to(torch.float64)
    module = made(TextOfObjects).double()
    result = simulate(
        "fedavg", federation, module, rounds=1, cohort=3, local=LOCAL, dtype=torch.float64, output=lambda o: o.logits
    )
    trained = result.module().eval()
    assert federation.test is not None
    assert federation.validation is not None
    sets = {"test": federation.test, "validation": (federation.validation.inputs, federation.validation.targets)}
    for name, (inputs, targets) in sets.items():
        assert isinstance(inputs, dict)
        outputs = trained(**inputs).logits.detach()
        assert result.history[-1][f"{name}_loss"] == pytest.approx(float(F.cross_entropy(outputs, targets)), rel=1e-12)
        accuracy = float((outputs.argmax(1) == targets).double().mean())
        assert result.history[-1][f"{name}_accuracy"] == pytest.approx(accuracy, rel=1e-12)
    assert "test_p50" in result.history[-1]


def test_the_cost_of_a_model_with_several_inputs_is_counted():
    """Forward and backward of the last layer, twice the multiply-adds of 4 x 3; its inputs have a gradient, too."""
    inputs, targets = clients()[0]
    assert measure(FedAvg(), Text(), (inputs, targets), batch_size=10).gradient_flops == 3 * 2 * 10 * 4 * 3
