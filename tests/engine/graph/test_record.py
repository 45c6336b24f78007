"""A function's operations are written down below vmap and grad, and what cannot be written down is recognised."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from driftless.engine.graph.record import Function, Recording, Unrecordable, record
from driftless.engine.graph.replay import runnable


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def recorded(f: Function, *arguments: list[Tensor]) -> Recording:
    _, recording = record(f, *arguments)
    assert isinstance(recording, Recording), recording
    return recording


def played(recording: Recording, *arguments: list[Tensor]) -> list[Tensor]:
    """The recorded operations on other arguments, as they were heard."""
    with torch.no_grad():
        return list(runnable(recording.graph, recording.constants)(*(value for part in arguments for value in part)))


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


NETWORK = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()


def loss(w: Tensor, inputs: Tensor) -> Tensor:
    weights = {"0.weight": w[:12].view(3, 4), "0.bias": w[12:15], "2.weight": w[15:18].view(1, 3)}
    return functional_call(NETWORK, weights, inputs).square().mean()


def gradient_step(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
    return [moving[0] - fixed[0] * grad(loss)(moving[0], batch[0])]


def lifted_step(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
    return list(vmap(gradient_step, in_dims=([0], [0], [None]))(moving, batch, fixed))


def pieces(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
    """Operations with several results, results that are arguments, and one result twice."""
    low, high = moving[0].chunk(2)
    most = batch[0].max(dim=1)
    first, *_ = batch[0].unbind(0)
    return [high * low, most.values, most.indices, first, moving[0], moving[0], fixed[0]]


PROGRAMS: dict[str, tuple[Function, Callable[[int], tuple[list[Tensor], ...]]]] = {
    "a gradient step": (
        gradient_step,
        lambda seed: ([numbers(18, seed=seed)], [numbers(5, 4, seed=seed + 1)], [numbers(seed=seed + 2)]),
    ),
    "a gradient step lifted over clients": (
        lifted_step,
        lambda seed: ([numbers(2, 18, seed=seed)], [numbers(2, 5, 4, seed=seed + 1)], [numbers(seed=seed + 2)]),
    ),
    "operations with several results": (
        pieces,
        lambda seed: ([numbers(6, seed=seed)], [numbers(2, 4, seed=seed + 1)], [numbers(3, seed=seed + 2)]),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_recorded_replays_to_the_same_results_on_other_arguments(name: str):
    f, arguments = PROGRAMS[name]
    with torch.no_grad():
        results, recording = record(f, *arguments(0))
        assert isinstance(recording, Recording)
        assert same(results, f(*arguments(0)))
        for seed in (0, 10, 20):
            assert same(played(recording, *arguments(seed)), f(*arguments(seed)))


def test_recording_leaves_the_arguments_as_they_are_and_gives_the_functions_own_results():
    moving, batch = [numbers(4)], [numbers(4, seed=1)]
    result = numbers(4, seed=2)
    (mine, given), _ = record(lambda m, b, f: [result, m[0] + b[0]], moving, batch, [])
    assert mine is result
    assert torch.equal(given, numbers(4) + numbers(4, seed=1))
    assert torch.equal(moving[0], numbers(4))


def test_the_number_of_arguments_of_each_kind_is_remembered():
    recording = recorded(lambda m, b, f: [m[0]], [numbers(1)], [numbers(2), numbers(3)], [numbers(4)] * 3)
    assert (recording.moving, recording.batch) == (1, 2)
    shapes = [node.meta["layout"].shape for node in recording.graph.nodes if node.op == "placeholder"]
    assert shapes == [(1,), (2,), (3,), (4,), (4,), (4,)]


class Scaled(nn.Module):
    """A layer with a buffer, a parameter that is not trained and a number of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", numbers(3, seed=7))
        self.shift = nn.Parameter(numbers(3, seed=8), requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.scale + self.shift + torch.tensor([0.25], dtype=torch.float64)


@pytest.mark.parametrize("lift", [False, True])
def test_tensors_from_elsewhere_are_found(lift: bool):
    layer = Scaled()

    def step(w: Tensor, inputs: Tensor) -> Tensor:
        return w - grad(lambda w: layer(inputs * w).square().sum())(w)

    def f(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        return [(vmap(step, in_dims=(0, 0)) if lift else step)(moving[0], batch[0])]

    arguments = [numbers(2, 3)], [numbers(2, 3, seed=1)], []
    recording = recorded(f, *arguments)
    values = [value.flatten().tolist() for value in recording.constants.values()]
    for expected in (layer.scale, layer.shift, torch.tensor([0.25])):
        assert expected.tolist() in values
    assert same(played(recording, *arguments), f(*arguments))


def test_a_buffer_is_remembered_itself_not_its_values():
    layer = Scaled()
    recording = recorded(lambda m, b, f: [layer(m[0])], [numbers(3)], [], [])
    layer.scale.fill_(2)
    assert same(played(recording, [numbers(3)]), [layer(numbers(3))])


VALUE_DEPENDENT: dict[str, Callable[[Tensor], Tensor]] = {
    "item": lambda x: x * 2 if x.sum().item() > 0 else x,
    "float": lambda x: x * float(x.sum()),
    "an if": lambda x: x * 2 if x.sum() > 0 else x,
    "an index": lambda x: x[int(x.argmax())],
    "nonzero": lambda x: x.nonzero(),
    "a mask as an index": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.round().unique(),
    "equal": lambda x: x * 2 if torch.equal(x, x.abs()) else x,
    "tolist": lambda x: x * 2 if x.tolist()[0] > 0 else x,
    "numpy": lambda x: x * 2 if x.numpy()[0] > 0 else x,
    "an array of numpy": lambda x: x * 2 if np.asarray(x)[0] > 0 else x,
}


@pytest.mark.parametrize("name", VALUE_DEPENDENT)
def test_a_function_that_decides_by_values_is_unrecordable(name: str):
    f = VALUE_DEPENDENT[name]
    results, recording = record(lambda m, b, fixed: [f(b[0])], [], [numbers(4)], [])
    assert same(results, [f(numbers(4))])
    assert isinstance(recording, Unrecordable)


def test_another_look_at_the_same_memory_that_nobody_heard_of_is_unrecordable():
    """numpy makes it without an operation of torch."""

    def f(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        return [torch.from_numpy(np.from_dlpack(moving[0] * 2)[:3]) + 1]

    results, recording = record(f, [numbers(4)], [], [])
    assert same(results, [numbers(4)[:3] * 2 + 1])
    assert isinstance(recording, Unrecordable)


def test_a_tensor_that_comes_back_in_disguise_is_recognised_or_refused():
    """Another tensor, the same memory: as if it went to another library and back."""
    f: Function = lambda m, b, f: [torch.from_dlpack(m[0] * 2) + 1]  # noqa: E731
    results, recording = record(f, [numbers(4)], [], [])
    assert same(results, [numbers(4) * 2 + 1])
    if isinstance(recording, Recording):
        assert same(played(recording, [numbers(4, seed=1)]), [numbers(4, seed=1) * 2 + 1])


def test_two_calls_with_other_values_did_the_same():
    for f, arguments in PROGRAMS.values():
        assert recorded(f, *arguments(0)).same_as(recorded(f, *arguments(1)))


def changing() -> dict[str, Function]:
    """Functions whose second call does something else than the first."""
    number = count(1)
    dice = random.Random(0)
    other = iter([torch.float32, torch.float64])
    permuted = iter([(0, 1), (1, 0)])
    typed = iter([torch.tensor(2), torch.tensor(2.0)])
    return {
        "a counter as a factor": lambda m, b, f: [m[0] * next(number)],
        "a counter as a tensor": lambda m, b, f: [m[0] * torch.tensor(next(number))],
        "a counter as the number of operations": lambda m, b, f: [sum([m[0]] * next(number), m[0])],
        "Python's random numbers": lambda m, b, f: [m[0] + dice.random()],
        "numpy's random numbers": lambda m, b, f: [m[0] + torch.from_numpy(np.random.default_rng().random(2))],
        "a counter as a named argument": lambda m, b, f: [torch.add(m[0], m[0], alpha=next(number))],
        "the type of a tensor": lambda m, b, f: [m[0] * next(typed)],
        "a type": lambda m, b, f: [m[0].to(next(other)).double()],
        "an order": lambda m, b, f: [m[0].permute(next(permuted)).contiguous()],
        "the sign of a zero": lambda m, b, f: [m[0] * (0.0 if next(number) % 2 else -0.0)],
        "a whole number instead of a fraction": lambda m, b, f: [m[0] * (1 if next(number) % 2 else 1.0)],
    }


@pytest.mark.parametrize("name", changing())
def test_two_calls_that_did_different_things_are_told_apart(name: str):
    f = changing()[name]
    first, second = (recorded(f, [numbers(2, 2)], [], []) for _ in range(2))
    assert not first.same_as(second)
    assert not second.same_as(first)


WRITING: dict[str, Function] = {
    "into a new tensor": lambda m, b, f: [m[0].clone().add_(b[0])],
    "into an argument": lambda m, b, f: [m[0].mul_(0.5)],
    "into a part": lambda m, b, f: [torch.cat([m[0].clone()[:2].zero_(), m[0][2:]])],
    "by an index": lambda m, b, f: [m[0].clone().index_add_(0, torch.tensor([0]), b[0][:1])],
    "by out=": lambda m, b, f: [torch.add(m[0], b[0], out=torch.empty_like(m[0]))],
    "by a layer that saves memory": lambda m, b, f: [nn.ReLU(inplace=True)(m[0] * 1)],
}


@pytest.mark.parametrize("name", WRITING)
def test_a_function_that_writes_is_not_pure_and_replays_its_writing(name: str):
    f = WRITING[name]
    recording = recorded(f, [numbers(4)], [numbers(4, seed=1)], [])
    assert not recording.pure
    given = numbers(4, seed=2)
    expected = f([given.clone()], [numbers(4, seed=3)], [])
    assert same(played(recording, [given], [numbers(4, seed=3)]), expected)


def test_a_function_that_writes_nowhere_is_pure():
    for f, arguments in PROGRAMS.values():
        assert recorded(f, *arguments(0)).pure


def test_a_buffer_that_counts_goes_on_counting():
    steps = torch.zeros(())
    recording = recorded(lambda m, b, f: [m[0] * steps.add_(1)], [torch.ones(1)], [], [])
    assert [played(recording, [torch.ones(1)])[0].item() for _ in range(3)] == [2, 3, 4]


RANDOM: dict[str, Callable[[Tensor], Tensor]] = {
    "rand": lambda x: x * torch.rand(4, dtype=x.dtype),
    "randn_like": lambda x: x + torch.randn_like(x),
    "randint": lambda x: x * torch.randint(0, 9, (4,)),
    "randperm": lambda x: x * torch.randperm(4),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full_like(x, 0.5)),
    "dropout": lambda x: F.dropout(x, 0.5),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.5, training=True),
    "normal_": lambda x: x * torch.empty_like(x).normal_(),
    "two draws": lambda x: torch.rand(4, dtype=x.dtype) - torch.rand(4, dtype=x.dtype) * x,
    "a gradient through noise": lambda x: grad(lambda x: (x.square() * torch.rand_like(x)).sum())(x),
}


@pytest.mark.parametrize("lift", [False, True])
@pytest.mark.parametrize("name", RANDOM)
def test_random_operations_draw_from_torchs_generator_as_the_function_does(name: str, lift: bool):
    draw = vmap(RANDOM[name], randomness="different") if lift else RANDOM[name]

    def f(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        return [draw(batch[0])]

    value = numbers(3, 4) if lift else numbers(4)
    with torch.random.fork_rng():
        recording = recorded(f, [], [value], [])
        for seed in (1, 2):
            torch.manual_seed(seed)
            expected, state = f([], [value], []), torch.random.get_rng_state()
            torch.manual_seed(seed)
            assert same(played(recording, [value]), expected)
            assert torch.equal(torch.random.get_rng_state(), state)
        assert not same(played(recording, [value]), expected)
