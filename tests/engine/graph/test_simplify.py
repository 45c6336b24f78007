"""Simplified recordings give the bits of the function as written, and write into no memory but what they were given."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import grad
from torch.utils._python_dispatch import TorchDispatchMode

from driftless.engine.graph import simplify
from driftless.engine.graph.record import Function, Recording, record
from driftless.engine.graph.replay import Replay
from driftless.engine.graph.simplify import simplified
from engine.graph.series import CONSTANT, Arguments, Tensors, address, check_series, numbers, same_bits


class Operations(TorchDispatchMode):
    """The names of the operations that are carried out, such as "add_"."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


# -------------------------------------------------------------------------------------------------- memory and liveness


def half(value: Tensor) -> Tensor:
    return value * 0.5


PAIR = Arguments(
    (numbers(4, 4), numbers(4, 4, seed=1)), lambda k: (numbers(4, 4, seed=10 + k),), (numbers(4, 4, seed=2),)
)


def twice(value: Tensor) -> Tensors:
    return value, value


def read_late(c: Tensors, n: Tensors, f: Tensors) -> Tensors:
    """A view of a result is read after the result's last use."""
    new = c[0] + n[0]
    part = new[:2]
    changed = new * 0.5
    return changed, c[1], part * 3


def equal_operations(c: Tensors, n: Tensors, f: Tensors) -> Tensors:
    """The same is computed twice, and one of the twins is read through a view after the other's last use."""
    one, two = c[0] + n[0], c[0] + n[0]
    part = two[1:]
    return one * 0.5, c[1], part * 3


def columns_and_rows(c: Tensors, n: Tensors, f: Tensors) -> Tensors:
    """Rows of four numbers, two columns further on, have numbers in common with the first column."""
    new = c[0] + n[0]
    column, rows = new[:, :1], new.view(16)[2:14].view(3, 4)
    changed = rows * 0.5
    return c[1] + changed.sum(), c[1], column * 3


def written_in_pieces(c: Tensors, n: Tensors, f: Tensors) -> Tensors:
    low, high = c[0].chunk(2)
    return torch.cat([high * 0.5, low + 1]), c[1] + c[0]


ALIASES: dict[str, Function] = {
    "the previous value is kept": lambda c, n, f: (half(c[0]) + n[0], c[0]),
    "the previous value is returned besides": lambda c, n, f: (half(c[0]) + n[0], c[1], c[0]),
    "two values change places": lambda c, n, f: (c[1], c[0]),
    "two values change places and move": lambda c, n, f: (c[1] + n[0], half(c[0])),
    "a value is returned twice": lambda c, n, f: twice(half(c[0]) + n[0]),
    "a given value is returned twice": lambda c, n, f: twice(c[0]),
    "a value and its transpose": lambda c, n, f: ((new := half(c[0]) + n[0]), new.t()),
    "a value and a result that is a part of it": lambda c, n, f: ((new := half(c[0]) + n[0]), c[1], new[1:3]),
    "a value and a part of another": lambda c, n, f: ((new := half(c[0]) + n[0]), c[1] + 1, new.flatten()[3:]),
    "a new value becomes a changing one": lambda c, n, f: (n[0], c[0] - c[1]),
    "a part of a new value becomes a changing one": lambda c, n, f: (n[0].t(), c[0] + 1),
    "a fixed value becomes a changing one": lambda c, n, f: (f[0], c[0] + n[0]),
    "what is computed from fixed values becomes a value": lambda c, n, f: (f[0].exp(), c[0] + n[0]),
    "and is returned besides": lambda c, n, f: (f[0].exp(), c[0] + n[0], f[0].exp()),
    "a row for all": lambda c, n, f: (c[0][0].expand(4, 4), c[1] + c[0]),
    "a fixed row for all": lambda c, n, f: (f[0][0].expand(4, 4), c[0] + n[0]),
    "a value plus itself": lambda c, n, f: ((new := half(c[0])) + new, c[1]),
    "a value times itself": lambda c, n, f: ((new := half(c[0])) * new, c[1]),
    "a value minus itself": lambda c, n, f: ((new := half(c[0])) - new + n[0], c[1]),
    "a value plus its transpose": lambda c, n, f: (half(c[0]) + half(c[0]).t(), c[1]),
    "a value plus its own part": lambda c, n, f: (c[0] + c[0][0], c[1] + c[1].t()),
    "a matrix product with itself": lambda c, n, f: (torch.tanh(c[0] @ c[0]), c[0] + c[1]),
    "a view that is read late": read_late,
    "equal operations and a view that is read late": equal_operations,
    "a value written in pieces": written_in_pieces,
    "columns and rows that begin in the middle": columns_and_rows,
    "a constant": lambda c, n, f: (CONSTANT + n[0], c[0]),
    "a constant's transpose": lambda c, n, f: (CONSTANT.t() + n[0], c[0]),
    "a value that is transposed in every call": lambda c, n, f: (c[0].t() * 0.5 + c[0].reshape(16)[3], c[1]),
    "numbers of different types": lambda c, n, f: (half(c[0]).float() + n[0], c[1]),
    "a row and a matrix": lambda c, n, f: (half(c[0].sum(0, keepdim=True)) + n[0], c[1]),
    "a transpose in a sum that is looked at as a vector": lambda c, n, f: (
        (n[0] + c[0].t()).view(16)[3:7] * c[1],
        c[1],
    ),
    "ones like a transpose, looked at as a vector": lambda c, n, f: (
        c[0] + torch.ones_like(n[0].t()).t().view(16)[0],
        c[1],
    ),
    "nothing changes": lambda c, n, f: (c[0], c[1]),
    "views of both": lambda c, n, f: (c[1].view(2, 8).view(4, 4), c[0].t().t() + 1),
}


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("name", ALIASES)
def test_values_that_share_memory_stay_right(name: str, in_place: bool):
    check_series(ALIASES[name], PAIR, in_place)


WRITING: dict[str, Function] = {
    "into something new": lambda c, n, f: (half(c[0]).add_(n[0]), c[0]),
    "into something new, a value is returned twice": lambda c, n, f: twice(half(c[0]).add_(n[0])),
    "into something new, a new value becomes a changing one": lambda c, n, f: (n[0], half(c[0]).relu_()),
    "into something new, a fixed row for all": lambda c, n, f: (f[0][0].expand(4, 4), half(c[0]).relu_()),
    "into a value that is given away": lambda c, n, f: (c[0].mul_(0.5), c[1]),
    "into a value that is given away and returned twice": lambda c, n, f: twice(c[0].mul_(0.5)),
    "into a value that was a new value": lambda c, n, f: (n[0], c[0].mul_(0.5)),
}


@pytest.mark.parametrize("name", WRITING)
def test_a_function_that_writes_is_replayed_without_touching_anything_else(name: str):
    check_series(WRITING[name], PAIR)


def read_and_changed(new: Tensor) -> Tensors:
    before = new.norm()
    changed = new * 0.5
    return changed, before, new.sum()


def gradient(n: Tensors) -> Tensor:
    return torch.cat([value.flatten() for value in n])


STEP = Arguments(
    (numbers(15),),
    lambda k: (numbers(2, 4, seed=10 + k), numbers(3, seed=20 + k), numbers(4, seed=30 + k)),
    (numbers(1, seed=2).abs(), numbers(15, seed=3)),
)
"""A vector; the parts of its gradient, of 8, 3 and 4 numbers; a learning rate and a direction."""
STEPS: dict[str, Function] = {
    "a gradient step": lambda c, n, f: (c[0] - f[0] * gradient(n),),
    "a gradient step in one pass": lambda c, n, f: (torch.addcmul(c[0], gradient(n), f[0], value=-1),),
    "weight decay": lambda c, n, f: (c[0] - f[0] * (gradient(n) + 0.01 * c[0]),),
    "a correction": lambda c, n, f: (c[0] - f[0] * (gradient(n) - f[1]),),
    "Adam's direction": lambda c, n, f: (c[0] - f[0] * gradient(n) / ((gradient(n) * gradient(n)).sqrt() + 0.1),),
    "a norm": lambda c, n, f: (c[0] - f[0] * gradient(n) / (1 + gradient(n).norm()),),
    "a mask": lambda c, n, f: (torch.where(f[1] > 0, c[0] - f[0] * gradient(n), c[0]),),
    "the gradient is returned": lambda c, n, f: (c[0] - f[0] * gradient(n), gradient(n)),
    "the first part of the previous value is kept": lambda c, n, f: (c[0] - f[0] * gradient(n), c[0][:8]),
    "the last part of the previous value is kept": lambda c, n, f: (c[0] - f[0] * gradient(n), c[0][11:]),
    "a number of the previous value is read": lambda c, n, f: (c[0] - f[0] * gradient(n), c[0][9] * 3),
    "the new value is read before and after it changes": lambda c, n, f: read_and_changed(c[0] - f[0] * gradient(n)),
    "a part is empty": lambda c, n, f: (c[0] - f[0] * torch.cat([n[1][:0], gradient(n)]),),
}


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("name", STEPS)
def test_steps_of_a_vector_stay_right(name: str, in_place: bool):
    check_series(STEPS[name], STEP, in_place)


@pytest.mark.parametrize("name", ["a gradient step", "a gradient step in one pass", "weight decay", "Adam's direction"])
def test_a_step_of_a_vector_writes_into_the_vectors_memory(name: str):
    """Otherwise nothing would be gained by working in place."""
    series = Replay().series("f", STEPS[name], STEP.fixed, in_place=True)
    now = (numbers(15),)
    for k in range(6):
        before = address(now[0])
        now = series(now, STEP.new(k))
        assert k < 2 or address(now[0]) == before


# ------------------------------------------------------------------------------------------------------------- in parts

ROWS = Arguments(
    (numbers(5, 15), numbers(5, 15, seed=1)),
    lambda k: (numbers(5, 2, 4, seed=10 + k), numbers(5, 3, seed=20 + k), numbers(5, 4, seed=30 + k)),
    (numbers(1, seed=2)[0].abs(), numbers(5, 15, seed=3), numbers(15, seed=4), numbers(5, 1, seed=5)),
)
"""The same for five clients: their vectors and momenta; a vector for each of them, one for all, a number for each."""


def gradients(n: Tensors) -> Tensor:
    return torch.cat([value.flatten(1) for value in n], 1)


def momentum(c: Tensors, n: Tensors, f: Tensors) -> Tensors:
    m = torch.add(gradients(n), c[1], alpha=0.9)
    return torch.addcmul(c[0], m, f[0], value=-1), m


def accumulated(c: Tensors, n: Tensors, f: Tensors) -> Tensors:
    g = gradients(n) - f[1]
    return torch.addcmul(c[0], g, f[0], value=-1), c[1] + g


IN_PARTS: dict[str, Function] = {
    "a step": lambda c, n, f: (torch.addcmul(c[0], gradients(n), f[0], value=-1), c[1]),
    "a correction of each client": lambda c, n, f: (torch.addcmul(c[0], gradients(n) - f[1], f[0], value=-1), c[1]),
    "a correction of all clients": lambda c, n, f: (torch.addcmul(c[0], gradients(n) + f[2], f[0], value=-1), c[1]),
    "a rate of each client": lambda c, n, f: (torch.addcmul(c[0], gradients(n), f[3], value=-1), c[1]),
    "weight decay": lambda c, n, f: (torch.addcmul(c[0], gradients(n) + 0.01 * c[0], f[0], value=-1), c[1]),
    "a sum of directions": accumulated,
    "a cat along the last dimension": lambda c, n, f: (
        c[0] - (torch.cat([value.flatten(1) for value in n], -1) - f[2]), c[1]
    ),
}  # fmt: skip
WHOLE: dict[str, Function] = {
    "momentum": momentum,
    "a norm": lambda c, n, f: (c[0] - gradients(n) / gradients(n).norm(), c[1]),
    "a mask": lambda c, n, f: (torch.where(f[1] > 0, c[0] - f[0] * gradients(n), c[0]), c[1]),
    "the gradient is kept": lambda c, n, f: (c[0] - f[0] * gradients(n), gradients(n)),
    "the gradient is returned": lambda c, n, f: (c[0] - f[0] * gradients(n), c[1], gradients(n)),
    "a cat of rows": lambda c, n, f: (c[0] - torch.cat([gradients(n)[:2], gradients(n)[2:]]), c[1]),
    "a value read through other columns": lambda c, n, f: (c[0] - f[0] * gradients(n), c[1] + c[0][:, 3:4]),
}


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("name", [*IN_PARTS, *WHOLE])
def test_steps_of_several_clients_stay_right(name: str, in_place: bool):
    check_series((IN_PARTS | WHOLE)[name], ROWS, in_place)


@pytest.mark.parametrize("name", IN_PARTS)
def test_a_gradient_is_not_copied_into_one_vector(name: str):
    assert "cat" not in steady(IN_PARTS[name], ROWS)


def test_views_of_a_vector_that_is_written_over_are_taken_once_in_a_series():
    names = steady(lambda c, n, f: (torch.addcmul(c[0], gradients(n), c[0][:, 3:4].exp(), value=-1), c[1]), ROWS)
    assert "slice" not in names


def test_many_short_parts_are_copied_into_one_vector(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(simplify, "WORTH_SPLITTING", 1000)
    assert "cat" in steady(IN_PARTS["a step"], ROWS)


ELEMENTWISE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: torch.add(a, b, alpha=0.3),
    "sub": lambda a, b: torch.sub(a, b, alpha=1.7),
    "mul": torch.mul,
    "div": torch.div,
    "neg": lambda a, b: -a,
    "sqrt": lambda a, b: a.abs().sqrt(),
    "addcmul": lambda a, b: torch.addcmul(a, b, a, value=0.37),
}


def test_all_operations_that_are_carried_out_in_parts_are_compared_below():
    assert {operation.overloadpacket.__name__ for operation in simplify.IN_PLACE} == set(ELEMENTWISE)


@pytest.mark.parametrize("dtype", simplify.SPLIT_DTYPES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_elements_result_does_not_depend_on_where_it_lies(name: str, dtype: torch.dtype):
    f, a, b = ELEMENTWISE[name], numbers(7, 301).to(dtype), numbers(7, 301, seed=1).to(dtype)
    for width in (1, 2, 3, 7, 8, 9, 17, 31, 33, 100):
        parts = [f(a[:, i : i + width], b[:, i : i + width].clone()) for i in range(0, 301, width)]
        assert same_bits(torch.cat(parts, 1), f(a, b))


def test_without_in_place_the_given_values_are_left_unchanged():
    series = Replay().series("f", lambda c, n, f: c - n, ())
    for k in range(4):
        now = numbers(8)
        new = series(now, numbers(8, seed=k))
        assert torch.equal(now, numbers(8))
        assert torch.equal(new, numbers(8) - numbers(8, seed=k))


# ---------------------------------------------------------------------------------------------------------- deduplicate


def steady(f: Function, arguments: Arguments, in_place: bool = True) -> list[str]:
    """The operations of the fourth call of a series: after two that are recorded and one that is checked."""
    check_series(f, arguments, in_place)
    series = Replay().series("f", f, arguments.fixed, in_place)
    now = tuple(value.clone() for value in arguments.changing)
    for k in range(3):
        now = series(now, arguments.new(k))[: len(now)]
    new = arguments.new(3)
    with Operations() as done:
        series(now, new)
    return done.names


def test_nothing_is_computed_twice_and_nothing_that_is_not_used():
    def f(c: Tensors, n: Tensors, fixed: Tensors) -> Tensors:
        n[0].exp().log()
        return c[0] - n[0].tanh() - n[0].t().t().tanh(), c[1]

    names = steady(f, PAIR)
    assert names.count("tanh") == 1
    assert "exp" not in names
    assert "t" not in names


@pytest.mark.parametrize("in_place", [True, False])
def test_zeros_of_both_signs_and_numbers_of_different_types_are_told_apart(in_place: bool):
    def ones(c: Tensors, n: Tensors, f: Tensors) -> Tensors:
        whole = (n[0] * 9).to(torch.int64)
        return *c, whole * 1, whole * 1.0, whole * True

    check_series(lambda c, n, f: (*c, n[0] * 0.0, n[0] * -0.0), PAIR, in_place)
    check_series(ones, PAIR, in_place)


COMPLEX: dict[str, Callable[[Tensor], Tensor]] = {
    "a conjugate": lambda x: (torch.fft.fft(x).conj() * torch.fft.fft(x.flip(0))).imag,
    "the imaginary part of a conjugate": lambda x: torch.fft.fft(x).conj().imag + 2 * torch.fft.fft(x).imag,
    "a gradient through a transform": lambda x: grad(
        lambda y: (torch.fft.fft(y) * torch.fft.fft(x.flip(0))).abs().sum()
    )(x),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_a_conjugate_is_not_mistaken_for_the_number_itself(name: str):
    """It is a view of the same memory, of the same shape and strides."""
    check_series(lambda c, n, f: (*c, COMPLEX[name](n[0][0])), PAIR)


# ---------------------------------------------------------------------------------------------------------------- hoist


@pytest.mark.parametrize("in_place", [True, False])
def test_what_depends_on_fixed_values_alone_is_computed_once_in_a_series(in_place: bool):
    constant = numbers(8, seed=9)

    def f(changing: Tensor, new: Tensor, fixed: Tensor) -> Tensor:
        return changing + new * fixed.exp() * constant.tanh() + torch.ones_like(new)

    replay, names = Replay(), list[str]()
    for turn in range(3):
        fixed = numbers(8, seed=turn)
        series = replay.series("f", f, fixed, in_place)
        for k in range(4):
            new = numbers(8, seed=k)
            with Operations() as done:
                result = series(numbers(8), new)
            assert same_bits(result, f(numbers(8), new, fixed))
            if turn == 2:  # none of its calls is recorded or checked
                names += done.names
    assert [names.count(name) for name in ("exp", "tanh", "full")] == [1, 1, 1]


def test_what_depends_on_new_values_is_computed_in_every_call():
    assert steady(lambda c, n, f: (c[0] + (f[0] * n[0]).exp(), c[1] + f[0].exp()), PAIR).count("exp") == 1


def test_the_example_of_the_packages_page_is_simplified_as_it_says():
    def step(y: Tensor, g: Tensor, fixed: Tensors) -> Tensor:
        lr, c = fixed
        return y - lr * (g.view(-1) + 0.1 * c)

    _, recording = record(step, numbers(4), numbers(4), (numbers(1), numbers(4)))
    assert isinstance(recording, Recording)
    assert operations(recording.graph) == ["view", "mul", "add", "mul", "sub"]
    graphs = simplified(recording, in_place=True)
    assert operations(graphs.before) == ["mul"]
    assert operations(graphs.step) == ["add", "mul_", "sub_"]


def operations(graph: torch.fx.Graph) -> list[str]:
    called = [node.target for node in graph.nodes if node.op in ("call_function", "call_method")]
    return [target if isinstance(target, str) else target.overloadpacket.__name__ for target in called]
