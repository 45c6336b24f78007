"""A series of replayed calls gives the bits of the function as it is written, and touches nobody else's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import grad, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from driftless.engine.graph import simplify as rewrite
from driftless.engine.graph.record import Function, Recording, record
from driftless.engine.graph.replay import Replay, kind, runnable
from driftless.engine.graph.simplify import for_compiler, rewritten


@pytest.fixture(autouse=True)
def _parts_of_four_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "LARGE_PART", 4)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Equal numbers; zeros have equal signs, and not a number equals not a number."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    signs = not one.is_floating_point() or torch.equal(one.signbit() & ~one.isnan(), other.signbit() & ~other.isnan())
    return signs and bool(torch.isclose(one, other, rtol=0, atol=0, equal_nan=True).all())


def address(value: Tensor) -> int:
    return value.untyped_storage().data_ptr()


def copied(value: Tensor) -> Tensor:
    """In memory of its own, laid out in the same way: the last bit of a sum depends on the order in memory."""
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value)


CONSTANT = numbers(4, 4, seed=6)


class Operations(TorchDispatchMode):
    """Listens to what is really carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[str, tuple[int, ...]]] = []
        """Names, such as "add_", and shapes of the results."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        shape = tuple(result.shape) if isinstance(result, Tensor) else ()
        self.done.append((func.overloadpacket.__name__, shape))
        return result

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.done]


class Arguments(NamedTuple):
    moving: list[Tensor]
    batch: Callable[[int], list[Tensor]]
    """Of call k."""
    fixed: list[Tensor]


def check_series(f: Function, arguments: Arguments, in_place: bool = True, calls: int = 6) -> None:
    """Play a series, and as it is written: same bits, no argument changed, `moving` results alone in their memory."""
    heard: list[int] = []

    def listened(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        heard.append(1)
        return f(moving, batch, fixed)

    fixed = [value.clone() for value in arguments.fixed]
    series = Replay().series("f", listened, fixed, in_place)
    now, kinds = [value.clone() for value in arguments.moving], set()
    kept = [(CONSTANT, CONSTANT.clone()), *zip(fixed, arguments.fixed, strict=True)]
    for k in range(calls):
        batch = [value.clone() for value in arguments.batch(k)]
        if not in_place:
            now = [value.clone() for value in now]
            kept += [(value, copied(value)) for value in now]
        expected = f([copied(value) for value in now], arguments.batch(k), arguments.fixed)
        expected = [value.clone() for value in expected]
        kinds.add(tuple(map(kind, (*now, *batch))))
        results = series(now, batch)
        for i, (result, value) in enumerate(zip(results, expected, strict=True)):
            assert same_bits(result, value), f"call {k}, result {i}: {result} instead of {value}"
        kept += zip(batch, arguments.batch(k), strict=True)
        now = results[: len(now)]
        kept += zip(results[len(now) :], expected[len(now) :], strict=True)
        if in_place:
            taken = {address(value) for value, _ in kept if value.numel()}
            for value in now:
                assert address(value) not in taken, f"call {k}: a moving result shares its memory"
                taken.add(address(value))
    assert all(same_bits(value, before) for value, before in kept), "something was written over"
    assert len(heard) <= 2 * len(kinds), "nothing was replayed"


# ------------------------------------------------------------------------------------------------------ random programs


def half(value: Tensor) -> Tensor:
    return value * 0.5


UNARY: list[Callable[[Tensor], Tensor]] = [
    half,
    torch.neg,
    torch.tanh,
    torch.clone,
    lambda a: a.abs().sqrt(),
    lambda a: a.t() if a.dim() == 2 else a.flip(0),
    lambda a: a.flatten(),
    lambda a: a.view(4, -1) if a.is_contiguous() and a.numel() % 4 == 0 else a.reshape(-1),
    lambda a: a[..., :4],
    lambda a: a[..., 1:],
    lambda a: a[1:3],
    lambda a: a[0].expand(a.shape),
    lambda a: a.chunk(2, -1)[-1],
    lambda a: a.sum(0, keepdim=True),
    lambda a: a / (1 + a.norm()),
    lambda a: a.detach(),
    lambda a: a + torch.ones_like(a),
    lambda a: torch.exp(-a.abs()),
    lambda a: a.unsqueeze(0).squeeze(0),
]
BINARY: list[Callable[[Tensor, Tensor], Tensor]] = [
    torch.add,
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    lambda a, b: a / (1 + b.abs()),
    lambda a, b: torch.where(a > b, a, b),
    lambda a, b: torch.add(a, b, alpha=0.3),
    lambda a, b: torch.addcmul(a, b, b, value=-0.3),
    lambda a, b: torch.cat([a, b], -1),
    lambda a, b: torch.cat([a[..., :4], b[..., :4]], -1),
    lambda a, b: torch.cat([a, a[..., :1], b]),
    lambda a, b: torch.tanh(a @ b),
]


class Instruction(NamedTuple):
    operation: int
    """Of UNARY, then of BINARY."""
    a: int
    """Which of the values so far, from the newest; arguments come last."""
    b: int


class Written(NamedTuple):
    """A program as a function of tensors: instructions that do not fit their operands are left out."""

    instructions: list[Instruction]
    moving: list[int]
    """For each moving result, which of the values that have its shape."""
    others: list[int]

    def __call__(self, moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        values = [*fixed, *batch, *moving]
        for operation, a, b in self.instructions:
            one, two = (values[-1 - i % len(values)] for i in (a, b))
            unary = operation < len(UNARY)
            if unary and one.dim() and one.numel():
                values.append(UNARY[operation](one))
            elif not unary and fits(BINARY[operation - len(UNARY)], one, two):
                values.append(BINARY[operation - len(UNARY)](one, two))
        new = []
        for given_, i in zip(moving, self.moving, strict=True):
            alike = [value for value in values if value.shape == given_.shape]
            new.append(alike[-1 - i % len(alike)])
        return [*new, *(values[-1 - i % len(values)] for i in self.others)]


def fits(f: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> bool:
    try:
        with torch._C._DisableTorchDispatch():
            return 0 < f(a.detach(), b.detach()).numel() < 200
    except (RuntimeError, IndexError):
        return False


small = st.integers(0, 6)
instructions = st.builds(Instruction, st.integers(0, len(UNARY) + len(BINARY) - 1), small, small)
programs = st.builds(
    Written,
    st.lists(instructions, min_size=3, max_size=14),
    st.tuples(small, small, small).map(list),
    st.lists(small, max_size=2),
)
ARGUMENTS = Arguments(
    [numbers(4, 4), numbers(4, 4, seed=1), numbers(8, seed=2)],
    lambda k: [numbers(4, 4, seed=10 + k), numbers(8, seed=20 + k)],
    [numbers(4, 4, seed=3), numbers(8, seed=4), numbers(1, seed=5)],
)


@given(programs, st.booleans())
@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_programs_are_replayed_to_the_bit(program: Written, in_place: bool):
    check_series(program, ARGUMENTS, in_place)


# -------------------------------------------------------------------------------------------------- memory and liveness

PAIR = Arguments(
    [numbers(4, 4), numbers(4, 4, seed=1)], lambda k: [numbers(4, 4, seed=10 + k)], [numbers(4, 4, seed=2)]
)


def twice(value: Tensor) -> list[Tensor]:
    return [value, value]


def read_late(m: list[Tensor], b: list[Tensor], f: list[Tensor]) -> list[Tensor]:
    """A view of a result is read after the result's last use."""
    new = m[0] + b[0]
    part = new[:2]
    changed = new * 0.5
    return [changed, m[1], part * 3]


def equal_operations(m: list[Tensor], b: list[Tensor], f: list[Tensor]) -> list[Tensor]:
    """The same is computed twice, and one of the twins is read through a view after the other's last use."""
    one, two = m[0] + b[0], m[0] + b[0]
    part = two[1:]
    return [one * 0.5, m[1], part * 3]


def columns_and_rows(m: list[Tensor], b: list[Tensor], f: list[Tensor]) -> list[Tensor]:
    """Rows of four numbers, two columns further on, have numbers in common with the first column."""
    new = m[0] + b[0]
    column, rows = new[:, :1], new.view(16)[2:14].view(3, 4)
    changed = rows * 0.5
    return [m[1] + changed.sum(), m[1], column * 3]


def written_in_pieces(m: list[Tensor], b: list[Tensor], f: list[Tensor]) -> list[Tensor]:
    low, high = m[0].chunk(2)
    return [torch.cat([high * 0.5, low + 1]), m[1] + m[0]]


ALIASES: dict[str, Function] = {
    "the previous value is kept": lambda m, b, f: [half(m[0]) + b[0], m[0]],
    "the previous value is returned besides": lambda m, b, f: [half(m[0]) + b[0], m[1], m[0]],
    "two values change places": lambda m, b, f: [m[1], m[0]],
    "two values change places and move": lambda m, b, f: [m[1] + b[0], half(m[0])],
    "a value is returned twice": lambda m, b, f: twice(half(m[0]) + b[0]),
    "a given value is returned twice": lambda m, b, f: twice(m[0]),
    "a value and its transpose": lambda m, b, f: [(new := half(m[0]) + b[0]), new.t()],
    "a value and a result that is a part of it": lambda m, b, f: [(new := half(m[0]) + b[0]), m[1], new[1:3]],
    "a value and a part of another": lambda m, b, f: [(new := half(m[0]) + b[0]), m[1] + 1, new.flatten()[3:]],
    "a batch becomes a value": lambda m, b, f: [b[0], m[0] - m[1]],
    "a part of a batch becomes a value": lambda m, b, f: [b[0].t(), m[0] + 1],
    "a fixed value becomes a value": lambda m, b, f: [f[0], m[0] + b[0]],
    "what is computed from fixed values becomes a value": lambda m, b, f: [f[0].exp(), m[0] + b[0]],
    "and is returned besides": lambda m, b, f: [f[0].exp(), m[0] + b[0], f[0].exp()],
    "a row for all": lambda m, b, f: [m[0][0].expand(4, 4), m[1] + m[0]],
    "a fixed row for all": lambda m, b, f: [f[0][0].expand(4, 4), m[0] + b[0]],
    "a value plus itself": lambda m, b, f: [(new := half(m[0])) + new, m[1]],
    "a value times itself": lambda m, b, f: [(new := half(m[0])) * new, m[1]],
    "a value minus itself": lambda m, b, f: [(new := half(m[0])) - new + b[0], m[1]],
    "a value plus its transpose": lambda m, b, f: [half(m[0]) + half(m[0]).t(), m[1]],
    "a value plus its own part": lambda m, b, f: [m[0] + m[0][0], m[1] + m[1].t()],
    "a matrix product with itself": lambda m, b, f: [torch.tanh(m[0] @ m[0]), m[0] + m[1]],
    "a view that is read late": read_late,
    "equal operations and a view that is read late": equal_operations,
    "a value written in pieces": written_in_pieces,
    "columns and rows that begin in the middle": columns_and_rows,
    "a constant": lambda m, b, f: [CONSTANT + b[0], m[0]],
    "a constant's transpose": lambda m, b, f: [CONSTANT.t() + b[0], m[0]],
    "a value that is transposed in every call": lambda m, b, f: [m[0].t() * 0.5 + m[0].reshape(16)[3], m[1]],
    "numbers of different types": lambda m, b, f: [half(m[0]).float() + b[0], m[1]],
    "a row and a matrix": lambda m, b, f: [half(m[0].sum(0, keepdim=True)) + b[0], m[1]],
    "a transpose in a sum that is looked at as a vector": lambda m, b, f: [
        (b[0] + m[0].t()).view(16)[3:7] * m[1],
        m[1],
    ],
    "ones like a transpose, looked at as a vector": lambda m, b, f: [
        m[0] + torch.ones_like(b[0].t()).t().view(16)[0],
        m[1],
    ],
    "nothing changes": lambda m, b, f: [m[0], m[1]],
    "views of both": lambda m, b, f: [m[1].view(2, 8).view(4, 4), m[0].t().t() + 1],
}


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("name", ALIASES)
def test_values_that_share_memory_stay_right(name: str, in_place: bool):
    check_series(ALIASES[name], PAIR, in_place)


WRITING: dict[str, Function] = {
    "into something new": lambda m, b, f: [half(m[0]).add_(b[0]), m[0]],
    "into something new, a value is returned twice": lambda m, b, f: twice(half(m[0]).add_(b[0])),
    "into something new, a batch becomes a value": lambda m, b, f: [b[0], half(m[0]).relu_()],
    "into something new, a fixed row for all": lambda m, b, f: [f[0][0].expand(4, 4), half(m[0]).relu_()],
    "into a value that is given away": lambda m, b, f: [m[0].mul_(0.5), m[1]],
    "into a value that is given away and returned twice": lambda m, b, f: twice(m[0].mul_(0.5)),
    "into a value that was a batch": lambda m, b, f: [b[0], m[0].mul_(0.5)],
}


@pytest.mark.parametrize("name", WRITING)
def test_a_function_that_writes_is_replayed_without_touching_anything_else(name: str):
    check_series(WRITING[name], PAIR)


@pytest.mark.parametrize("name", ALIASES | WRITING)
def test_what_a_compiler_gets_is_right_for_values_that_share_memory(name: str):
    """It fills the memory of the values that are given away; here it is run without being compiled."""
    f = (ALIASES | WRITING)[name]
    now = [value.clone() for value in PAIR.moving]
    _, recording = record(f, [value.clone() for value in now], PAIR.batch(0), PAIR.fixed)
    assert isinstance(recording, Recording)
    program = for_compiler(recording)
    before, step = (runnable(graph, recording.constants) for graph in (program.before, program.step))
    for k in range(3):
        expected = [value.clone() for value in f([value.clone() for value in now], PAIR.batch(k), PAIR.fixed)]
        results = step(*now, *PAIR.batch(k), *PAIR.fixed, *before(*PAIR.fixed))
        assert all(result is value for result, value in zip(results, now, strict=False))
        assert all(same_bits(result, value) for result, value in zip(results, expected, strict=True))


def test_a_value_that_only_changes_stays_in_its_memory():
    """Otherwise nothing would be gained."""
    series = Replay().series("f", lambda m, b, f: [m[0] - f[0] * b[0], m[1] + b[0].sum()], [numbers(1)], True)
    now = [numbers(8), numbers()]
    for k in range(6):
        before = [address(value) for value in now]
        now = series(now, [numbers(8, seed=k)])
        assert k < 2 or [address(value) for value in now] == before


def test_without_being_given_away_values_are_left_alone():
    series = Replay().series("f", lambda m, b, f: [m[0] - b[0]], [])
    for k in range(4):
        now = [numbers(8)]
        new = series(now, [numbers(8, seed=k)])
        assert torch.equal(now[0], numbers(8))
        assert torch.equal(new[0], numbers(8) - numbers(8, seed=k))


# ------------------------------------------------------------------------------------------------------------- simplify


def steady(f: Function, arguments: Arguments, in_place: bool = True) -> Operations:
    """What the fourth call of a series carries out: after two that are recorded and one that prepares."""
    check_series(f, arguments, in_place)
    series = Replay().series("f", f, arguments.fixed, in_place)
    now = [value.clone() for value in arguments.moving]
    for k in range(3):
        now = series(now, arguments.batch(k))[: len(now)]
    batch = arguments.batch(3)
    with Operations() as operations:
        series(now, batch)
    return operations


def test_nothing_is_computed_twice_and_nothing_that_nobody_needs():
    def f(m: list[Tensor], b: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        b[0].exp().log()
        return [m[0] - b[0].tanh() - b[0].t().t().tanh(), m[1]]

    names = steady(f, PAIR).names
    assert names.count("tanh") == 1
    assert "exp" not in names
    assert "t" not in names


@pytest.mark.parametrize("in_place", [True, False])
def test_zeros_of_both_signs_and_numbers_of_different_types_are_told_apart(in_place: bool):
    def zeros(m: list[Tensor], b: list[Tensor], f: list[Tensor]) -> list[Tensor]:
        return [m[0], m[1], b[0] * 0.0, b[0] * -0.0]

    def ones(m: list[Tensor], b: list[Tensor], f: list[Tensor]) -> list[Tensor]:
        whole = (b[0] * 9).to(torch.int64)
        return [m[0], m[1], whole * 1, whole * 1.0, whole * True]

    check_series(zeros, PAIR, in_place)
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
    check_series(lambda m, b, f: [m[0], m[1], COMPLEX[name](b[0][0])], PAIR)


@pytest.mark.parametrize("in_place", [True, False])
def test_random_draws_are_neither_merged_nor_dropped_nor_done_in_advance(in_place: bool):
    def f(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        torch.rand(2)
        first, second = torch.rand(8).double(), torch.rand(8).double()
        return [half(moving[0]) + torch.bernoulli(fixed[0]) + first - 2 * second]

    fixed = [torch.full((8,), 0.5).double()]
    series = Replay().series("f", f, fixed, in_place)
    with torch.random.fork_rng():
        for k in range(6):
            torch.manual_seed(k)
            expected, state = f([numbers(8)], [], fixed), torch.random.get_rng_state()
            torch.manual_seed(k)
            assert same_bits(series([numbers(8)], [])[0], expected[0])
            assert torch.equal(torch.random.get_rng_state(), state)


# ---------------------------------------------------------------------------------------------------------------- split

PARTS = Arguments(
    [numbers(15)],
    lambda k: [numbers(2, 4, seed=10 + k), numbers(3, seed=20 + k), numbers(4, seed=30 + k)],
    [numbers(1, seed=2).abs(), numbers(15, seed=3)],
)
"""A vector and its gradient's parts: 8, 3 and 4 numbers, of which 3 are few."""


def cat(batch: list[Tensor]) -> Tensor:
    return torch.cat([value.flatten() for value in batch])


ELEMENTWISE: dict[str, Function] = {
    "a gradient step": lambda m, b, f: [m[0] - f[0] * cat(b)],
    "weight decay": lambda m, b, f: [m[0] - f[0] * (cat(b) + 0.01 * m[0])],
    "a correction": lambda m, b, f: [m[0] - f[0] * (cat(b) - f[1])],
    "Adam's direction": lambda m, b, f: [m[0] - f[0] * cat(b) / ((cat(b) * cat(b)).sqrt() + 0.1)],
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_the_gradient_is_not_put_together_for_an_elementwise_update(name: str):
    assert ("cat", (15,)) not in steady(ELEMENTWISE[name], PARTS).done


WHOLE: dict[str, Function] = {
    "a norm": lambda m, b, f: [m[0] - f[0] * cat(b) / (1 + cat(b).norm())],
    "a sum": lambda m, b, f: [m[0] - f[0] * cat(b) * cat(b).sum()],
    "another order": lambda m, b, f: [m[0] - f[0] * cat(b).flip(0)],
    "a result": lambda m, b, f: [m[0] - f[0] * cat(b), cat(b)],
}


@pytest.mark.parametrize("name", WHOLE)
def test_the_gradient_is_put_together_once_where_it_is_needed(name: str):
    operations = steady(WHOLE[name], PARTS)
    assert operations.done.count(("cat", (15,))) == 1
    assert [shape for name, shape in operations.done if name == "sub_"] == [(15,)]


INEXACT: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "exp": ("exp", lambda g: g.exp()),
    "tanh": ("tanh", lambda g: g.tanh()),
    "pow": ("pow", lambda g: g.abs() ** 0.3),
    "sigmoid": ("sigmoid", lambda g: g.sigmoid()),
    "add with alpha": ("add", lambda g: torch.add(g, g, alpha=0.3)),
    "sub with alpha": ("sub", lambda g: torch.sub(g, g, alpha=0.3)),
    "addcdiv": ("addcdiv", lambda g: torch.addcdiv(g, g, 1 + g.abs(), value=0.3)),
    "lerp": ("lerp", lambda g: torch.lerp(g, g * g, 0.3)),
}


@pytest.mark.parametrize("name", INEXACT)
@pytest.mark.parametrize("after", [False, True])
def test_an_operation_that_is_not_exact_is_carried_out_on_the_whole(name: str, after: bool):
    """Directly on the concatenation, or after something that is split."""
    operation, f = INEXACT[name]
    prepare = half if after else torch.clone
    operations = steady(lambda m, b, fixed: [f(prepare(cat(b)))], PARTS)
    of_name = [shape for name, shape in operations.done if name == operation]
    assert of_name == [(15,)]


def test_each_part_is_of_a_client_when_steps_are_lifted():
    def step(y: Tensor, first: Tensor, second: Tensor, lr: Tensor) -> Tensor:
        loss = lambda a, b: (a.view(2, 4) @ first).square().sum() + (b * second).sum()  # noqa: E731
        return y - lr * torch.cat(grad(loss, argnums=(0, 1))(y[:8], y[8:]))

    def f(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        return [vmap(step, in_dims=(0, 0, 0, None))(moving[0], *batch, fixed[0])]

    given_ = Arguments(
        [numbers(3, 12)], lambda k: [numbers(3, 4, seed=k), numbers(3, 4, seed=k + 9)], [numbers(seed=5)]
    )
    operations = steady(f, given_)
    assert "cat" not in operations.names
    assert all(shape != (3, 12) for _, shape in operations.done), operations.done


def test_few_numbers_between_large_parts_are_handled_together():
    """Parts of 8, 1, 1, 1 and 4: the three small ones are one part."""
    sizes = [8, 1, 1, 1, 4]
    given_ = PARTS._replace(batch=lambda k: [numbers(n, seed=10 * k + i) for i, n in enumerate(sizes)])
    operations = steady(lambda m, b, f: [m[0] - f[0] * torch.cat(b)], given_)
    assert [shape for name, shape in operations.done if name == "cat"] == [(3,)]
    assert operations.names.count("sub_") == 3


def test_small_gradients_are_put_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rewrite, "LARGE_PART", 9)
    operations = steady(ELEMENTWISE["a gradient step"], PARTS)
    assert operations.names.count("cat") == operations.names.count("sub_") == 1


def test_views_of_what_stays_in_its_memory_are_made_once():
    operations = steady(ELEMENTWISE["a gradient step"], PARTS)
    assert "slice" not in operations.names


def test_views_follow_when_other_values_are_given():
    """The caller goes back to a value of its own in the middle of a series, also in the same list."""
    series = Replay().series("f", ELEMENTWISE["a gradient step"], PARTS.fixed, True)
    now = [numbers(15)]
    for k in range(8):
        if k == 4:
            now = [numbers(15, seed=40)]
        if k == 6:
            now[0] = numbers(15, seed=60)
        expected = ELEMENTWISE["a gradient step"]([now[0].clone()], PARTS.batch(k), PARTS.fixed)
        now[:] = series(now, PARTS.batch(k))
        assert same_bits(now[0], expected[0])


def read_and_changed(new: Tensor) -> list[Tensor]:
    before = new.norm()
    changed = new * 0.5
    return [changed, before, new.sum()]


def halves(batch: list[Tensor], n: int) -> Tensor:
    return torch.cat([batch[0].flatten()[:n], batch[1], batch[2], batch[0].flatten()[n:]])


OTHER_CONCATENATIONS: dict[str, tuple[Function, Arguments]] = {
    "a mask": (
        lambda m, b, f: [torch.where(f[1] > 0, m[0] - f[0] * cat(b), m[0])], PARTS,
    ),
    "a step in one pass": (
        lambda m, b, f: [torch.addcmul(m[0], cat(b), f[0], value=-1)], PARTS,
    ),
    "from one row for all": (
        lambda m, b, f: [m[0][0].expand(4, 8) - torch.cat([b[0], b[0]], -1)], PAIR._replace(moving=[numbers(4, 8)]),
    ),
    "the first part of the previous value is kept": (
        lambda m, b, f: [m[0] - f[0] * cat(b), m[0][:8]], PARTS,
    ),
    "the last part of the previous value is kept": (
        lambda m, b, f: [m[0] - f[0] * cat(b), m[0][11:]], PARTS,
    ),
    "a number in the middle of the previous value is read": (
        lambda m, b, f: [m[0] - f[0] * cat(b), m[0][9] * 3], PARTS,
    ),
    "the new value is read before and after it changes": (
        lambda m, b, f: read_and_changed(m[0] - f[0] * cat(b)), PARTS,
    ),
    "the parts of two concatenations begin elsewhere": (
        lambda m, b, f: [m[0] - cat(b) * halves(b, 4)], PARTS,
    ),
    "the parts of two concatenations end elsewhere": (
        lambda m, b, f: [m[0] - halves(b, 8) * halves(b, 6)], PARTS,
    ),
    "a part is empty": (
        lambda m, b, f: [m[0] - f[0] * torch.cat([b[1][:0], cat(b)])], PARTS,
    ),
    "a part is empty and has no columns": (
        lambda m, b, f: [m[0] - torch.cat([b[0].new_empty(0), b[0], b[0]], -1)],
        PAIR._replace(moving=[numbers(4, 8)]),
    ),
    "parts are of different types": (
        lambda m, b, f: [m[0] - torch.cat([b[0].float(), b[0]], -1) * 0.1 * 0.7],
        PAIR._replace(moving=[numbers(4, 8)]),
    ),
    "a concatenation of rows": (
        lambda m, b, f: [m[0] - f[0] * torch.cat([b[0], b[0][:2]])],
        PAIR._replace(moving=[numbers(6, 4)], fixed=[numbers(1)]),
    ),
    "the same part twice": (
        lambda m, b, f: [m[0] - f[0] * torch.cat([b[0], b[0]], 1)],
        PAIR._replace(moving=[numbers(4, 8)], fixed=[numbers(1)]),
    ),
    "a vector for each row": (
        lambda m, b, f: [m[0] - f[0] * torch.cat([b[0][0], b[0][1]])],
        PAIR._replace(moving=[numbers(3, 8)], fixed=[numbers(3, 1)]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_CONCATENATIONS)
def test_other_concatenations_stay_right(name: str):
    check_series(*OTHER_CONCATENATIONS[name])


# ---------------------------------------------------------------------------------------------------------------- hoist


@pytest.mark.parametrize("in_place", [True, False])
def test_what_depends_on_fixed_values_alone_is_computed_once_in_a_series(in_place: bool):
    constant = numbers(8, seed=9)

    def f(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        return [moving[0] + batch[0] * fixed[0].exp() * constant.tanh() + torch.ones_like(batch[0])]

    replay = Replay()
    for turn in range(3):
        fixed = [numbers(8, seed=turn)]
        series = replay.series("f", f, fixed, in_place)
        names = []
        for k in range(4):
            batch = [numbers(8, seed=k)]
            expected = f([numbers(8)], batch, fixed)
            with Operations() as operations:
                result = series([numbers(8)], batch)
            assert same_bits(result[0], expected[0])
            names += operations.names if turn else []
        counts = [names.count(name) for name in ("exp", "tanh")]
        assert counts == ([1, 1] if turn else [0, 0])
        assert names.count("full") + names.count("ones_like") <= 1


def test_what_depends_on_a_batch_is_computed_in_every_call():
    names = steady(lambda m, b, f: [m[0] + (f[0] * b[0]).exp(), m[1] + f[0].exp()], PAIR).names
    assert names.count("exp") == 1


def test_the_graphs_say_what_is_done_before_a_series_and_in_a_step():
    _, recording = record(lambda m, b, f: [m[0] * f[0].exp() + b[0]], [numbers(4)], [numbers(4)], [numbers(4)])
    assert isinstance(recording, Recording)
    program = rewritten(recording, in_place=True)
    assert [node.target for node in calls(program.before)] == [torch.ops.aten.exp.default]
    assert [node.target for node in calls(program.step)] == [torch.ops.aten.mul_.Tensor, torch.ops.aten.add_.Tensor]


def calls(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    return (node for node in graph.nodes if node.op == "call_function")
