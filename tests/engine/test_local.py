from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from driftless import InputError, LocalTraining, simulate
from driftless.algorithms import FedAvg, FedSGD, Scaffold
from driftless.engine.batches import FULL_GRADIENT_CHUNK, plan
from driftless.engine.flat import FlatModel
from driftless.engine.local import Batch, LocalStep, check_agreement, loss_gradient, regularised
from driftless.engine.losses import cross_entropy, half_squared_error
from driftless.random import stream
from engine.problems import linear, network, regression, run, vector


def gradient_at(y: np.ndarray, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Of 1/2 the mean squared error of inputs @ y[:-1] + y[-1], worked out by hand."""
    residual = inputs @ y[:-1] + y[-1] - targets
    return np.append(residual @ inputs, residual.sum()) / len(targets)


def by_hand(training: LocalTraining, client: int, t: int, x: np.ndarray, inputs, targets, seed: int = 0) -> np.ndarray:
    """Local SGD of one client in round t as a plain loop."""
    y, lr = x.copy(), training.lr * training.lr_decay ** (t - 1)
    planned = plan(training, len(inputs), stream(seed, "batches", t, client))
    for rows, n in zip(planned.index, planned.count, strict=True):
        g = gradient_at(y, inputs[rows[:n]], targets[rows[:n]])
        if training.clip_norm is not None:
            g = g * min(1.0, training.clip_norm / np.linalg.norm(g))
        y = y - lr * (g + training.weight_decay * y)
    return y


TRAININGS = {
    "epochs with a short batch": LocalTraining(lr=0.1, epochs=2, batch_size=3),
    "epochs with a bootstrapped batch": LocalTraining(lr=0.1, epochs=2, batch_size=3, last_batch="bootstrap"),
    "epochs without the last batch": LocalTraining(lr=0.1, epochs=2, batch_size=3, last_batch="drop"),
    "steps": LocalTraining(lr=0.1, steps=5, batch_size=2),
    "full batches": LocalTraining(lr=0.1, steps=3, batch_size=None),
    "weight decay": LocalTraining(lr=0.1, steps=5, batch_size=2, weight_decay=0.3),
    "clipping": LocalTraining(lr=0.1, steps=5, batch_size=2, clip_norm=0.2),
    "clipping before weight decay": LocalTraining(lr=0.1, steps=5, batch_size=2, clip_norm=0.2, weight_decay=0.3),
    "a decaying learning rate": LocalTraining(lr=0.1, steps=5, batch_size=2, lr_decay=0.5),
}


@pytest.mark.parametrize("engine", ["single", "block"])
@pytest.mark.parametrize("name", TRAININGS)
def test_local_training_is_the_plain_loop(name: str, engine: str):
    """Two clients of different size; after each round the aggregate is the mean of what the loop reaches."""
    training, federation, module = TRAININGS[name], regression([4, 7]), linear()
    _, records = run("fedavg", federation, module, local=training, engine=engine, rounds=3, weighting="uniform")
    x = vector(module).numpy()
    for record in records:
        data = [[part.numpy() for part in federation.client(i)] for i in range(2)]
        reached = [by_hand(training, i, record.round, x, *data[i]) for i in range(2)]
        np.testing.assert_allclose(record.aggregate.numpy(), np.mean(reached, 0), rtol=0, atol=1e-13)
        x = record.x.numpy()


def step_with(model: FlatModel, **training: object) -> LocalStep:
    return LocalStep(FedAvg(), loss_gradient(model, half_squared_error), LocalTraining(**training))


def test_weight_decay_adds_wd_times_y_to_the_gradient():
    model, (inputs, targets) = FlatModel(linear(), torch.float64), regression([6]).client(0)
    y, batch = torch.arange(4.0, dtype=torch.float64) + 1, Batch(inputs, targets)
    plain, _ = step_with(model).gradient(y, batch)
    decayed = regularised(plain, y, LocalTraining(weight_decay=0.25))
    torch.testing.assert_close(decayed - plain, 0.25 * y, rtol=0, atol=1e-13)
    assert regularised(plain, y, LocalTraining()) is plain


@settings(max_examples=40, deadline=None)
@given(bound=st.floats(1e-3, 1e3), scale=st.floats(1e-6, 1e6))
def test_clip_norm_bounds_the_gradient_and_keeps_its_direction(bound: float, scale: float):
    model, (inputs, targets) = FlatModel(linear(), torch.float64), regression([6]).client(0)
    y = scale * torch.ones(4, dtype=torch.float64)
    plain, _ = step_with(model).gradient(y, Batch(inputs, targets))
    clipped = regularised(plain, y, LocalTraining(clip_norm=bound))
    assert clipped.norm() <= bound * (1 + 1e-12)
    if plain.norm() <= bound:
        assert torch.equal(clipped, plain)
    else:
        torch.testing.assert_close(clipped, plain * (bound / plain.norm()), rtol=1e-12, atol=0)


def test_a_zero_gradient_stays_zero_under_clipping():
    model, inputs = FlatModel(linear(), torch.float64), torch.zeros(2, 3, dtype=torch.float64)
    y = torch.zeros(4, dtype=torch.float64)
    g, _ = step_with(model).gradient(y, Batch(inputs, torch.zeros(2, dtype=torch.float64)))
    clipped = regularised(g, y, LocalTraining(clip_norm=0.1))
    assert torch.equal(clipped, torch.zeros(4, dtype=torch.float64))


def users_own(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return cross_entropy(outputs, targets)


@pytest.mark.parametrize("loss", [cross_entropy, users_own])
def test_a_padded_batch_has_the_gradient_and_loss_of_the_exact_short_batch(loss):
    """The padding is an outlier, so that any leak would show."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    inputs[3:] = 1e3
    targets = torch.tensor([0, 1, 2, 1, 0])
    gradient = loss_gradient(FlatModel(network(), torch.float64), loss)
    y = vector(network())
    exact, seen = gradient(y, Batch(inputs[:3], targets[:3]))
    weights = torch.tensor([1, 1, 1, 0, 0], dtype=torch.float64)
    padded, seen_padded = gradient(y, Batch(inputs, targets, weights))
    torch.testing.assert_close(padded, exact, rtol=0, atol=1e-15)
    torch.testing.assert_close(seen_padded.loss, seen.loss, rtol=1e-14, atol=0)


@pytest.mark.parametrize("engine", ["single", "block"])
def test_a_full_gradient_over_several_chunks_is_the_gradient_over_all_examples(engine: str):
    """Scaffold's option 1 keeps it as the client's control. The second client has one chunk only."""
    sizes = [2 * FULL_GRADIENT_CHUNK + 100, 50]
    federation, module = regression(sizes), linear()
    local = LocalTraining(lr=0.01, steps=1, batch_size=5, weight_decay=0.1)
    result, _ = run(Scaffold(option=1), federation, module, rounds=1, local=local, engine=engine, evaluate_every=0)
    x = vector(module)
    kept = result.state.clients.get([0, 1], Scaffold().init_client(x)).c
    for i in range(2):
        inputs, targets = (part.numpy() for part in federation.client(i))
        expected = gradient_at(x.numpy(), inputs, targets) + 0.1 * x.numpy()
        np.testing.assert_allclose(kept[i].numpy(), expected, rtol=0, atol=1e-12)


def test_the_full_gradient_is_clipped_as_a_whole():
    federation, module = regression([2 * FULL_GRADIENT_CHUNK + 100, 50]), linear()
    local = LocalTraining(lr=0.01, steps=1, batch_size=5, clip_norm=0.05)
    kept = {}
    for engine in ("single", "block"):
        result, _ = run(Scaffold(option=1), federation, module, rounds=1, local=local, engine=engine, evaluate_every=0)
        kept[engine] = result.state.clients.get([0, 1], Scaffold().init_client(result.x)).c
    torch.testing.assert_close(kept["single"].norm(dim=1), torch.full((2,), 0.05, dtype=torch.float64))
    torch.testing.assert_close(kept["single"], kept["block"], rtol=0, atol=1e-13)


def test_the_learning_rate_decays_from_the_second_round_on():
    training = LocalTraining(lr=0.4, lr_decay=0.5, epochs=1, batch_size=None)
    assert [training.lr_at(t) for t in (1, 2, 3, 4)] == [0.4, 0.2, 0.1, 0.05]
    result, _ = run("fedavg", regression([3, 4]), linear(), local=training, rounds=4)
    assert result.history["lr"] == [0.4, 0.2, 0.1, 0.05]


def test_five_epochs_of_batches_of_ten_are_the_default():
    assert LocalTraining() == LocalTraining(lr=0.1, epochs=5, batch_size=10, last_batch="short", momentum=0.0)
    assert LocalTraining(steps=3).epochs is None
    assert LocalTraining(epochs=2) == LocalTraining(epochs=2, batch_size=10)
    with pytest.raises(FrozenInstanceError):
        LocalTraining().lr = 0.5


def test_epochs_and_steps_together_are_refused():
    with pytest.raises(InputError) as error:
        LocalTraining(epochs=2, steps=3)
    for part in ("local.epochs=2", "local.steps=3", "give one"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("lr", 0.0, "(0, inf)"),
        ("lr", -0.1, "(0, inf)"),
        ("lr", math.inf, "(0, inf)"),
        ("lr", math.nan, "(0, inf)"),
        ("lr", "0.1", "(0, inf)"),
        ("epochs", 0, "at least 1"),
        ("epochs", 1.5, "at least 1"),
        ("steps", -1, "at least 1"),
        ("steps", True, "at least 1"),
        ("batch_size", 0, "at least 1"),
        ("last_batch", "keep", "'short', 'bootstrap', 'drop'"),
        ("weight_decay", -1e-4, "[0, inf)"),
        ("clip_norm", 0.0, "(0, inf)"),
        ("lr_decay", 0.0, "(0, 1]"),
        ("lr_decay", 1.1, "(0, 1]"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_name_and_range(field: str, value: object, allowed: str):
    with pytest.raises(InputError) as error:
        LocalTraining(**{field: value})
    for part in (f"local.{field}", repr(value), allowed):
        assert part in str(error.value)


def test_fedsgd_takes_its_only_local_training_by_itself_and_refuses_others():
    federation, module = regression([3, 5]), linear()
    result = simulate(FedSGD(), federation, module, rounds=1, cohort=2, dtype=torch.float64)
    mean = sum(
        len(federation.client(i)[0])
        / 8
        * gradient_at(vector(module).numpy(), *(p.numpy() for p in federation.client(i)))
        for i in range(2)
    )
    np.testing.assert_allclose(result.x.numpy(), vector(module).numpy() - mean, rtol=0, atol=1e-13)
    check_agreement(FedSGD(), LocalTraining(lr=1.0, epochs=1, batch_size=None))
    check_agreement(FedSGD(), LocalTraining(lr=1.0, steps=1, weight_decay=0.1, batch_size=None))
    full = {"lr": 1.0, "epochs": 1, "batch_size": None}
    others = ({"lr": 0.1}, {"epochs": None, "steps": 2}, {"epochs": 5}, {"batch_size": 10}, {"lr_decay": 0.9})
    for wrong in ({}, *(full | other for other in others)):
        with pytest.raises(InputError, match=r"FedSGD is defined for local.steps=1, local.batch_size=None, local.lr=1"):
            check_agreement(FedSGD(), LocalTraining(**wrong))
