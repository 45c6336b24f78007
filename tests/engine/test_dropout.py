from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from driftless import Federation, LocalTraining
from driftless.engine.dropout import KeyedDropout, fold, keyed_uniform, mix, with_keyed_dropout
from driftless.engine.flat import FlatModel
from engine.own import Keeper, reached
from engine.problems import classification, network, run, seeded

N = 1_000_000
MASK = 2**64 - 1


def key(value: int) -> torch.Tensor:
    return torch.tensor(value)


def uniform(value: torch.Tensor, count: int = N) -> torch.Tensor:
    return keyed_uniform(value, torch.Size([count]), torch.float64)


def dropped(inputs: torch.Tensor, p: float, value: int, layer: int = 0) -> torch.Tensor:
    """The inputs after dropout with this key."""
    drop = KeyedDropout(p, layer)
    drop.start(key(value))
    return drop(inputs)


def splitmix64(z: int) -> int:
    """The finaliser as its authors print it, on Python's integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@pytest.mark.parametrize("z", [0, 1, -1, 2**62, -(2**63), 2**63 - 1, 123456789, -987654321])
def test_mix_is_the_finaliser_of_splitmix64(z: int):
    assert int(mix(key(z))) & MASK == splitmix64(z & MASK)


@pytest.mark.parametrize("number", [0, 1, 2, 3, 17, 10_000, 2**40])
@pytest.mark.parametrize("start", [0, 5, 2**63 - 1, -(2**63)])
def test_fold_wraps_around_at_64_bits(start: int, number: int):
    golden = 0x9E3779B97F4A7C15
    assert int(fold(key(start), number)) & MASK == splitmix64((start + (number + 1) * golden) & MASK)


def test_folding_a_block_of_keys_is_folding_each():
    keys = torch.tensor([3, 2**62, -5])
    assert fold(keys, 7).tolist() == [int(fold(k, 7)) for k in keys]


def test_the_same_key_gives_the_same_mask_and_another_key_another():
    inputs = torch.ones(200, dtype=torch.float64)
    assert torch.equal(dropped(inputs, 0.5, 1), dropped(inputs, 0.5, 1))
    assert not torch.equal(dropped(inputs, 0.5, 1), dropped(inputs, 0.5, 2))
    assert not torch.equal(dropped(inputs, 0.5, 1), dropped(inputs, 0.5, 1, layer=1))


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1, 2**62])
def test_the_share_of_units_kept_is_one_minus_p_within_five_sigma(p: float, seed: int):
    kept = dropped(torch.ones(N), p, seed, layer=3) > 0
    assert abs(float(kept.double().mean()) - (1 - p)) < 5 * math.sqrt(p * (1 - p) / N)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_the_expectation_of_a_unit_is_preserved(p: float):
    outputs = dropped(torch.full((N,), 2.0, dtype=torch.float64), p, 9)
    assert torch.allclose(outputs.unique(), torch.tensor([0, 2 / (1 - p)], dtype=torch.float64))
    assert abs(float(outputs.mean()) - 2) < 5 * 2 * math.sqrt(p / (1 - p) / N)


@pytest.mark.parametrize("training", [True, False])
def test_nothing_is_dropped_in_evaluation_or_with_p_zero(training: bool):
    drop = KeyedDropout(0.0 if training else 0.9, 0).train(training)
    inputs = torch.randn(50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(drop(inputs), inputs)


def test_dropping_everything_gives_zeros_as_torch_does():
    assert torch.equal(dropped(torch.ones(10), 1.0, 0), nn.Dropout(1.0)(torch.ones(10)))


@pytest.mark.parametrize("value", [0, 1, 2**62, -(2**63)])
def test_the_uniform_numbers_are_uniform(value: int):
    """Pearson's statistic over 1000 bins has mean 999 and standard deviation sqrt(2 * 999) = 45."""
    numbers = uniform(key(value))
    assert float(numbers.min()) >= 0
    assert float(numbers.max()) < 1
    counts = torch.histc(numbers, bins=1000, min=0, max=1)
    assert abs(float(((counts - N / 1000) ** 2 / (N / 1000)).sum()) - 999) < 5 * 45


def test_neighbouring_positions_are_not_correlated():
    numbers = uniform(key(4)) - 0.5
    for lag in (1, 2, 3, 64, 1000):
        assert abs(correlation(numbers[:-lag], numbers[lag:])) < 5 / math.sqrt(N)


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1])


@pytest.mark.parametrize("base", [0, 77, 2**61])
def test_neighbouring_keys_layers_and_steps_are_not_correlated(base: int):
    streams = {
        "the key": key(base),
        "the next key": key(base + 1),
        "the key with another high bit": key(base ^ (1 << 60)),
        "layer 0": fold(key(base), 0),
        "layer 1": fold(key(base), 1),
        "step 0, layer 0": fold(fold(key(base), 0), 0),
        "step 0, layer 1": fold(fold(key(base), 0), 1),
        "step 1, layer 0": fold(fold(key(base), 1), 0),
        "the next key, layer 0": fold(key(base + 1), 0),
    }
    numbers = torch.stack([uniform(k, 200_000) for k in streams.values()])
    matrix = torch.corrcoef(numbers) - torch.eye(len(streams), dtype=torch.float64)
    assert float(matrix.abs().max()) < 5 / math.sqrt(200_000)
    shifted = torch.corrcoef(torch.cat([numbers[:, 1:], numbers[:, :-1]]))[: len(streams), len(streams) :]
    assert float(shifted.abs().max()) < 5 / math.sqrt(200_000)


def test_float32_and_float64_drop_the_same_units():
    shape = torch.Size([100_000])
    for p in (0.1, 0.5):
        masks = [keyed_uniform(key(3), shape, dtype) >= p for dtype in (torch.float32, torch.float64)]
        assert torch.equal(*masks)


def test_rows_of_a_batch_are_dropped_alike_whatever_the_padding_below_them():
    assert torch.equal(dropped(torch.ones(3, 20), 0.5, 8), dropped(torch.ones(5, 20), 0.5, 8)[:3])


def test_every_dropout_of_a_module_is_replaced_and_gets_a_layer_of_its_own():
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1), nn.Sequential(nn.ReLU(), nn.Dropout(0.7)))
    assert with_keyed_dropout(module) == [module[1], module[2][1]]
    assert (module[1].p, module[1].layer) == (0.1, 0)
    assert (module[2][1].p, module[2][1].layer) == (0.7, 1)


class Twice(nn.Module):
    """One dropout module, used at two places: masks of equal shape must still differ."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.drop = nn.Linear(4, 400), nn.Linear(400, 3), nn.Dropout(0.5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.drop(torch.ones(400)), self.drop(torch.ones(400))]) + 0 * inputs.sum()


def test_one_dropout_used_twice_in_a_forward_pass_drops_other_units_the_second_time():
    model = FlatModel(Twice(), torch.float64)
    first, second = model.train(model.parameters(model.initial), torch.zeros(1, 4, dtype=torch.float64), key(1))
    assert not torch.equal(first, second)
    again, _ = model.train(model.parameters(model.initial), torch.zeros(1, 4, dtype=torch.float64), key(1))
    assert torch.equal(first, again)


def shared_dropout() -> nn.Module:
    drop = nn.Dropout(0.5)
    return nn.Sequential(nn.Linear(4, 8), drop, nn.Linear(8, 8), drop, nn.Linear(8, 3))


@pytest.mark.parametrize("make", [lambda: network(dropout=0.5), lambda: seeded(shared_dropout)], ids=["own", "shared"])
def test_engines_and_repetitions_agree_also_when_two_places_share_a_dropout(make):
    module, federation = make(), classification([3, 5, 4])
    local = LocalTraining(lr=0.2, epochs=2, batch_size=3)
    block, _ = run("fedavg", federation, module, local=local)
    single, _ = run("fedavg", federation, module, local=local, engine="single")
    torch.manual_seed(12345)
    again, _ = run("fedavg", federation, module, local=local)
    torch.testing.assert_close(block.x, single.x, rtol=0, atol=1e-12)
    assert torch.equal(block.x, again.x)


@pytest.mark.parametrize("engine", ["single", "block"])
def test_clients_rounds_and_seeds_have_masks_of_their_own(engine: str):
    """Two clients with the same data, one full-batch step: without dropout they would reach the same model."""
    data = classification([6]).client(0)
    federation = Federation.from_clients([data, data], test=data)
    options = {"local": LocalTraining(lr=0.1, steps=1, batch_size=None), "engine": engine, "rounds": 1}
    plain, _ = run(Keeper(), federation, network(), **options)
    torch.testing.assert_close(reached(plain, 0), reached(plain, 1), rtol=0, atol=1e-15)
    dropped, _ = run(Keeper(), federation, network(dropout=0.5), **options)
    other, _ = run(Keeper(), federation, network(dropout=0.5), **options, seed=1)
    assert (reached(dropped, 0) - reached(dropped, 1)).norm() > 1e-3
    assert (reached(dropped, 0) - reached(other, 0)).norm() > 1e-3
    # a learning rate too small to move: the gradient of round 2 differs from that of round 1 by its mask only
    tiny = LocalTraining(lr=1e-9, steps=1, batch_size=None)
    _, records = run("fedavg", federation, network(dropout=0.5), local=tiny, engine=engine, rounds=2)
    steps = [
        (after - before) / 1e-9 for before, after in zip([plain_x(), records[0].x], [r.x for r in records], strict=True)
    ]
    assert (steps[0] - steps[1]).norm() > 1e-3


def plain_x() -> torch.Tensor:
    return FlatModel(network(), torch.float64).initial


def test_every_local_step_has_a_mask_of_its_own():
    data = classification([6]).client(0)
    federation = Federation.from_clients([data], test=data)
    module, tiny = network(dropout=0.5), LocalTraining(lr=1e-9, steps=2, batch_size=None)
    two, _ = run("fedavg", federation, module, local=tiny, rounds=1, cohort=1)
    one, _ = run(
        "fedavg", federation, module, local=LocalTraining(lr=1e-9, steps=1, batch_size=None), rounds=1, cohort=1
    )
    first, both = (one.x - plain_x()) / 1e-9, (two.x - plain_x()) / 1e-9
    assert (both - 2 * first).norm() > 1e-2


def test_evaluation_drops_nothing():
    federation, module = classification([6, 6]), network(dropout=0.5)
    result, records = run("fedavg", federation, module, rounds=1)
    inputs, labels = federation.test
    outputs = result.module().eval()(inputs)
    expected = nn.functional.cross_entropy(outputs, labels).detach()
    assert records[-1].metrics["test_loss"] == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("engine", ["single", "block", "auto"])
@pytest.mark.parametrize("model", ["mlp", "dropout"])
def test_a_run_does_not_touch_torchs_global_generator(engine: str, model: str):
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    federation = classification([4, 6, 5])
    run("scaffold", federation, network(dropout=0.5) if model == "dropout" else model, engine=engine)
    assert torch.equal(torch.random.get_rng_state(), before)
