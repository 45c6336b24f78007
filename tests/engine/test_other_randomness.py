"""Randomness that is not `nn.Dropout`: a forward pass of the user's own may draw from torch's generator."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from driftless import Federation, InputError, LocalTraining
from engine.own import Keeper, reached
from engine.problems import classification, run, seeded


class Noisy(nn.Module):
    """Noise on the hidden units, of one of several kinds; in evaluation only if `always`."""

    def __init__(self, kind: str, always: bool = False) -> None:
        super().__init__()
        self.first, self.last, self.kind, self.always = nn.Linear(4, 6), nn.Linear(6, 3), kind, always
        self.alpha = nn.AlphaDropout(0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs).tanh()
        if self.training or self.always:
            if self.kind == "rand":
                hidden = hidden * torch.rand(hidden.shape, dtype=hidden.dtype)
            elif self.kind == "randn_like":
                hidden = hidden + torch.randn_like(hidden)
            elif self.kind == "F.dropout":
                hidden = F.dropout(hidden, 0.5)
            elif self.kind == "AlphaDropout":
                hidden = self.alpha(hidden)
            elif self.kind == "bernoulli":
                hidden = hidden * torch.bernoulli(torch.full_like(hidden, 0.5))
        return self.last(hidden)


every_kind = pytest.mark.parametrize("kind", ["rand", "randn_like", "F.dropout", "AlphaDropout", "bernoulli"])


def twins() -> Federation:
    """Two clients with the same data: without noise they reach the same model in one full-batch step."""
    data = classification([6]).client(0)
    return Federation.from_clients([data, data], test=data)


@every_kind
def test_other_randomness_differs_from_client_to_client(kind: str):
    module = seeded(lambda: Noisy(kind))
    options = {"local": LocalTraining(lr=0.1, steps=1, batch_size=None), "engine": "auto", "rounds": 1}
    quiet, _ = run(Keeper(), twins(), seeded(lambda: Noisy("none")), **options)
    torch.testing.assert_close(reached(quiet, 0), reached(quiet, 1), rtol=0, atol=1e-15)
    noisy, _ = run(Keeper(), twins(), module, **options)
    assert (reached(noisy, 0) - reached(noisy, 1)).norm() > 1e-4


@pytest.mark.parametrize("algorithm", ["fedavg", "mime"])
@every_kind
def test_other_randomness_repeats_with_the_seed_and_leaves_torchs_generator_alone(kind, algorithm):
    federation, module = classification([4, 6, 5]), seeded(lambda: Noisy(kind))
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first, _ = run(algorithm, federation, module, engine="auto")
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    second, _ = run(algorithm, federation, module, engine="auto")
    assert torch.equal(first.x, second.x)
    other, _ = run(algorithm, federation, module, engine="auto", seed=1)
    assert not torch.equal(first.x, other.x)


@every_kind
def test_a_run_in_two_parts_draws_the_same_noise_as_a_run_in_one(kind: str):
    federation, module = classification([4, 6, 5]), seeded(lambda: Noisy(kind))
    whole, _ = run("fedavg", federation, module, engine="auto", rounds=3)
    first, _ = run("fedavg", federation, module, engine="auto", rounds=1)
    second, _ = run("fedavg", federation, module, engine="auto", rounds=3, state=first.state)
    assert torch.equal(second.x, whole.x)


def test_rounds_and_steps_draw_noise_of_their_own():
    """With a learning rate that moves nothing, gradients differ by their noise only."""
    federation, module = twins(), seeded(lambda: Noisy("rand"))
    x = torch.cat([p.detach().flatten() for p in module.parameters()])
    _, records = run(
        "fedavg", federation, module, engine="auto", local=LocalTraining(lr=1e-9, steps=1, batch_size=None), rounds=2
    )
    two, _ = run(
        "fedavg", federation, module, engine="auto", local=LocalTraining(lr=1e-9, steps=2, batch_size=None), rounds=1
    )
    first, second = (records[0].x - x) / 1e-9, (records[1].x - records[0].x) / 1e-9
    assert (first - second).norm() > 1e-3
    assert ((two.x - x) / 1e-9 - 2 * first).norm() > 1e-3


def test_a_model_that_is_noisy_also_in_evaluation_gives_the_same_history_for_the_same_seed():
    federation, module = classification([4, 6, 5]), seeded(lambda: Noisy("rand", always=True))
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first, _ = run("fedavg", federation, module, engine="auto")
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    second, _ = run("fedavg", federation, module, engine="auto")
    assert first.history["test_loss"] == second.history["test_loss"]


@every_kind
def test_a_model_with_randomness_of_its_own_is_trained_one_client_after_the_other(kind: str):
    """What vmap draws for a block is not what torch draws for its clients."""
    federation, module = classification([4, 6, 5]), seeded(lambda: Noisy(kind))
    result, _ = run("fedavg", federation, module, engine="auto")
    assert result.engine["kind"] == "single"
    assert "one after the other" in result.events[0].what
    with pytest.raises(InputError, match="engine='block' cannot train this model"):
        run("fedavg", federation, module, engine="block")
