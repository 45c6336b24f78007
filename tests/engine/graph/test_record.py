"""The recorder writes down the operations below vmap and grad, and refuses what may differ in the next call."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from driftless.engine.graph.record import Function, NotRecordable, Recording, record, total_bytes
from driftless.engine.graph.replay import runnable
from driftless.engine.tree import Tree, leaves
from engine.graph.series import numbers


def recorded(f: Function, changing: Tree = (), new: Tree = (), fixed: Tree = ()) -> Recording:
    _, recording = record(f, changing, new, fixed)
    assert isinstance(recording, Recording), recording
    return recording


def run(recording: Recording, *arguments: Tree) -> list[Tensor]:
    """The recorded operations on other arguments."""
    with torch.no_grad():
        return list(runnable(recording.graph, recording.constants)(*leaves(arguments)))


def equal(one: Tree, other: Tree) -> bool:
    a, b = leaves(tuple(one)), leaves(tuple(other))
    return len(a) == len(b) and all(map(torch.equal, a, b))


NETWORK = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()


def loss(w: Tensor, inputs: Tensor) -> Tensor:
    weights = {"0.weight": w[:12].view(3, 4), "0.bias": w[12:15], "2.weight": w[15:18].view(1, 3)}
    return functional_call(NETWORK, weights, inputs).square().mean()


def gradient_step(w: Tensor, inputs: Tensor, lr: Tensor) -> Tensor:
    return w - lr * grad(loss)(w, inputs)


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


def several_results(changing: Tensor, new: Tensor, fixed: Pair) -> Tree:
    """Operations with several results, results that are arguments, and one result twice."""
    low, high = changing.chunk(2)
    most = new.max(dim=1)
    first, *_ = new.unbind(0)
    return Pair(high * low, most.values), (most.indices, first), changing, changing, fixed


PROGRAMS: dict[str, tuple[Function, Callable[[int], tuple[Tree, Tree, Tree]]]] = {
    "a gradient step": (
        gradient_step,
        lambda seed: (numbers(18, seed=seed), numbers(5, 4, seed=seed + 1), numbers(seed=seed + 2)),
    ),
    "a gradient step lifted over clients": (
        vmap(gradient_step, in_dims=(0, 0, None)),
        lambda seed: (numbers(2, 18, seed=seed), numbers(2, 5, 4, seed=seed + 1), numbers(seed=seed + 2)),
    ),
    "operations with several results": (
        several_results,
        lambda seed: (
            numbers(6, seed=seed),
            numbers(2, 4, seed=seed + 1),
            Pair(numbers(3, seed=seed + 2), numbers(1, seed=seed + 3)),
        ),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_recorded_operations_give_the_same_results_on_other_arguments(name: str):
    f, arguments = PROGRAMS[name]
    with torch.no_grad():
        result, recording = record(f, *arguments(0))
        assert isinstance(recording, Recording)
        assert equal((result,), (f(*arguments(0)),))
        for seed in (0, 10, 20):
            assert equal(run(recording, *arguments(seed)), (f(*arguments(seed)),))


def test_recording_leaves_the_arguments_unchanged_and_returns_the_functions_own_result():
    changing, own = numbers(4), numbers(4, seed=2)
    (first, second), _ = record(lambda c, n, f: (own, c + n), changing, numbers(4, seed=1), ())
    assert first is own
    assert torch.equal(second, numbers(4) + numbers(4, seed=1))
    assert torch.equal(changing, numbers(4))


def test_the_arguments_are_the_first_nodes_of_the_graph():
    recording = recorded(lambda c, n, f: c, numbers(1), (numbers(2), None, numbers(3)), (numbers(4),) * 3)
    assert (recording.changing, recording.new) == (1, 2)
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
def test_tensors_that_are_no_arguments_are_constants(lift: bool):
    layer = Scaled()

    def step(w: Tensor, inputs: Tensor, _: Tree) -> Tensor:
        return w - grad(lambda w: layer(inputs * w).square().sum())(w)

    f = vmap(step, in_dims=(0, 0, None)) if lift else step
    recording = recorded(f, numbers(2, 3), numbers(2, 3, seed=1))
    values = [value.flatten().tolist() for value in recording.constants.values()]
    for expected in (layer.scale, layer.shift, torch.tensor([0.25])):
        assert expected.tolist() in values
    assert equal(run(recording, numbers(2, 3), numbers(2, 3, seed=1)), (f(numbers(2, 3), numbers(2, 3, seed=1), ()),))


def test_a_buffer_is_kept_itself_not_its_values():
    layer = Scaled()
    recording = recorded(lambda c, n, f: layer(c), numbers(3))
    layer.scale.fill_(2)
    assert equal(run(recording, numbers(3)), (layer(numbers(3)),))


# -------------------------------------------------------------------------------------------------------------- refused

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
    "apply_": lambda x: x.clone().apply_(lambda number: number * 2 if number > 0 else number),
    "map_": lambda x: x.clone().map_(x, lambda a, b: a + b if a > 0 else a),
}


@pytest.mark.parametrize("name", VALUE_DEPENDENT)
def test_a_function_that_reads_numbers_out_of_tensors_is_refused(name: str):
    f = VALUE_DEPENDENT[name]
    result, recording = record(lambda _, new, fixed: f(new), (), numbers(4), ())
    assert torch.equal(result, f(numbers(4)))
    assert isinstance(recording, NotRecordable)


RANDOM: dict[str, Callable[[Tensor], Tensor]] = {
    "rand": lambda x: x * torch.rand(4, dtype=x.dtype),
    "randn_like": lambda x: x + torch.randn_like(x),
    "randint": lambda x: x * torch.randint(0, 9, (4,)),
    "randperm": lambda x: x * torch.randperm(4),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full_like(x, 0.5)),
    "dropout": lambda x: F.dropout(x, 0.5),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.5, training=True),
    "normal_": lambda x: x * torch.empty_like(x).normal_(),
    "a generator of its own": lambda x: x + torch.rand(4, generator=torch.Generator().manual_seed(1)),
    "a gradient through noise": lambda x: grad(lambda x: (x.square() * torch.rand_like(x)).sum())(x),
}


@pytest.mark.parametrize("lift", [False, True])
@pytest.mark.parametrize("name", RANDOM)
def test_a_function_that_draws_random_numbers_is_refused(name: str, lift: bool):
    draw = vmap(RANDOM[name], randomness="different") if lift else RANDOM[name]
    value = numbers(3, 4) if lift else numbers(4)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        result, recording = record(lambda _, new, fixed: draw(new), (), value, ())
        torch.manual_seed(1)
        assert torch.equal(result, draw(value))
    assert isinstance(recording, NotRecordable)
    assert "random" in str(recording)


def test_another_view_of_a_result_that_no_operation_made_is_refused():
    """numpy makes it without an operation of torch."""

    def f(changing: Tensor, new: Tree, fixed: Tree) -> Tensor:
        return torch.from_numpy(np.from_dlpack(changing * 2)[:3]) + 1

    result, recording = record(f, numbers(4), (), ())
    assert torch.equal(result, numbers(4)[:3] * 2 + 1)
    assert isinstance(recording, NotRecordable)


def test_a_tensor_that_went_through_another_library_is_recognised_or_refused():
    result, recording = record(lambda c, n, f: torch.from_dlpack(c * 2) + 1, numbers(4), (), ())
    assert torch.equal(result, numbers(4) * 2 + 1)
    if isinstance(recording, Recording):
        assert equal(run(recording, numbers(4, seed=1)), (numbers(4, seed=1) * 2 + 1,))


def test_a_function_with_sparse_tensors_is_refused():
    sparse = torch.eye(3, dtype=torch.float64).to_sparse()
    result, recording = record(lambda _, new, fixed: torch.sparse.mm(sparse, new), (), numbers(3, 2), ())
    assert torch.equal(result, numbers(3, 2))
    assert isinstance(recording, NotRecordable)


# --------------------------------------------------------------------------------------------------- two calls compared


def test_calls_that_differ_in_their_arguments_numbers_are_the_same():
    for f, arguments in PROGRAMS.values():
        assert recorded(f, *arguments(0)).same_as(recorded(f, *arguments(1)))


def changing_functions() -> dict[str, Function]:
    """Functions whose second call does something else than the first."""
    number = count(1)
    generator = random.Random(0)
    other = iter([torch.float32, torch.float64])
    permuted = iter([(0, 1), (1, 0)])
    typed = iter([torch.tensor(2), torch.tensor(2.0)])
    nested = iter([lambda x: (x, x), lambda x: ((x,), x)])
    return {
        "a counter as a factor": lambda c, n, f: c * next(number),
        "a counter as a tensor": lambda c, n, f: c * torch.tensor(next(number)),
        "a counter as the number of operations": lambda c, n, f: sum([c] * next(number), c),
        "Python's random numbers": lambda c, n, f: c + generator.random(),
        "numpy's random numbers": lambda c, n, f: c + torch.from_numpy(np.random.default_rng().random(2)),
        "a counter as a named argument": lambda c, n, f: torch.add(c, c, alpha=next(number)),
        "the type of a tensor": lambda c, n, f: c * next(typed),
        "a type": lambda c, n, f: c.to(next(other)).double(),
        "an order": lambda c, n, f: c.permute(next(permuted)).contiguous(),
        "the sign of a zero": lambda c, n, f: c * (0.0 if next(number) % 2 else -0.0),
        "a whole number instead of a fraction": lambda c, n, f: c * (1 if next(number) % 2 else 1.0),
        "the structure of the result": lambda c, n, f: next(nested)(c),
    }


@pytest.mark.parametrize("name", changing_functions())
def test_calls_that_did_different_things_are_not_the_same(name: str):
    f = changing_functions()[name]
    first, second = (recorded(f, numbers(2, 2)) for _ in range(2))
    assert not first.same_as(second)
    assert not second.same_as(first)


# -------------------------------------------------------------------------------------------------------------- writing

WRITING: dict[str, Function] = {
    "into a new tensor": lambda c, n, f: c.clone().add_(n),
    "into an argument": lambda c, n, f: c.mul_(0.5),
    "into a part": lambda c, n, f: torch.cat([c.clone()[:2].zero_(), c[2:]]),
    "by an index": lambda c, n, f: c.clone().index_add_(0, torch.tensor([0]), n[:1]),
    "by out=": lambda c, n, f: torch.add(c, n, out=torch.empty_like(c)),
    "by a layer that saves memory": lambda c, n, f: nn.ReLU(inplace=True)(c * 1),
}


@pytest.mark.parametrize("name", WRITING)
def test_operations_that_write_are_recorded_and_marked(name: str):
    f = WRITING[name]
    recording = recorded(f, numbers(4), numbers(4, seed=1))
    assert not recording.pure
    value = numbers(4, seed=2)
    expected = f(value.clone(), numbers(4, seed=3), ())
    assert equal(run(recording, value, numbers(4, seed=3)), (expected,))


def test_a_function_that_writes_nowhere_is_pure():
    for f, arguments in PROGRAMS.values():
        assert recorded(f, *arguments(0)).pure


def test_a_buffer_that_counts_continues_to_count():
    steps = torch.zeros(())
    recording = recorded(lambda c, n, f: c * steps.add_(1), torch.ones(1))
    assert [run(recording, torch.ones(1))[0].item() for _ in range(3)] == [2, 3, 4]


# --------------------------------------------------------------------------------------------------------------- memory

N = 1000
VECTOR = 8 * N
"""Bytes of the vectors below."""


def vectors_of(f: Function, changing: int = 1, new: int = 0, fixed: int = 0) -> int:
    """Memory of a call with so many vectors as arguments, in vectors."""
    arguments = (tuple(torch.ones(N, dtype=torch.float64) for _ in range(n)) for n in (changing, new, fixed))
    size = total_bytes(recorded(f, *arguments))
    assert size % VECTOR == 0, f"{size} bytes are not a number of vectors"
    return size // VECTOR


def test_arguments_are_counted_whether_they_are_used_or_not():
    """The caller holds them."""
    assert vectors_of(lambda c, n, f: c[0]) == 1
    assert vectors_of(lambda c, n, f: c[0] + 1, changing=1, new=2, fixed=3) == 7


def test_every_result_is_counted_since_all_are_in_memory_while_a_call_is_recorded():
    def chain(changing: tuple[Tensor], new: Tree, fixed: Tree) -> Tensor:
        value = changing[0]
        for _ in range(10):
            value = value * 2
        return value

    assert vectors_of(lambda c, n, f: (c[0] + 1) * 2) == 3
    assert vectors_of(chain) == 11


def test_views_are_counted_once():
    def views(changing: tuple[Tensor], new: Tree, fixed: Tree) -> Tree:
        x = changing[0].view(10, 100)
        return x.t(), x[:5].t(), changing[0].unsqueeze(0).expand(50, N)

    assert vectors_of(views) == 1
    assert vectors_of(lambda c, n, f: (c[0] + 1).view(10, 100).t()) == 2


def test_constants_are_counted_as_arguments_are():
    constant = torch.ones(N, dtype=torch.float64)
    assert vectors_of(lambda c, n, f: c[0] * 2 * 2 * constant) == 5


def test_several_results_of_one_operation_are_counted_each():
    """values and indices, both of eight bytes an element."""
    assert vectors_of(lambda c, n, f: tuple(c[0].view(N, 1).max(dim=1))) == 3


def test_bytes_are_those_of_the_dtype():
    assert total_bytes(recorded(lambda c, n, f: c > 0, torch.ones(N))) == 4 * N + N
