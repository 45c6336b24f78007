"""When a function is run as it is written and when its recording is replayed, and for which arguments."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from driftless.engine.graph import replay as module
from driftless.engine.graph.record import Function
from driftless.engine.graph.replay import Replay

both_ways = pytest.mark.parametrize("in_place", [False, True])


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Counted:
    """A function that knows how often it was called."""

    def __init__(self, f: Function | None = None) -> None:
        self.f: Function = f or (lambda m, b, f: [m[0] * 0.5 + b[0] * sum(f)])
        self.calls = 0

    def __call__(self, moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        self.calls += 1
        return self.f(moving, batch, fixed)

    def check(self, replay: Replay, value: Tensor, in_place: bool = False, name: str = "f", fixed: float = 2.0) -> int:
        """One call in a series of its own, which must be right; returns how often the function was called for it."""
        before, constants = self.calls, [torch.tensor(fixed, dtype=value.dtype)]
        result = replay.series(name, self, constants, in_place)([value.clone()], [value])
        called = self.calls - before
        assert torch.equal(result[0], self.f([value], [value], constants)[0])
        return called


@both_ways
def test_two_calls_are_recorded_and_all_others_replayed(in_place: bool):
    replay, f = Replay(), Counted()
    assert [f.check(replay, numbers(4, seed=k), in_place) for k in range(6)] == [1, 1, 0, 0, 0, 0]


@both_ways
def test_the_calls_of_one_series_are_replayed_too(in_place: bool):
    f = Counted()
    series = Replay().series("f", f, [torch.tensor(2.0, dtype=torch.float64)], in_place)
    now = written = [numbers(4)]
    for k in range(6):
        now, written = series(now, [numbers(4, seed=k)]), f.f(written, [numbers(4, seed=k)], [torch.tensor(2.0)])
        assert torch.equal(now[0], written[0])
    assert f.calls == 2


@both_ways
@pytest.mark.parametrize(
    "other",
    [
        numbers(5),
        numbers(2, 2),
        numbers(4).float(),
        numbers(8)[::2],
        numbers(1).expand(4),
    ],
    ids=["length", "shape", "type", "distance in memory", "expanded"],
)
def test_arguments_of_another_kind_are_recorded_anew(other: Tensor, in_place: bool):
    replay, f = Replay(), Counted()
    called = [f.check(replay, value, in_place) for _ in range(3) for value in (numbers(4), other)]
    assert called == [1, 1, 1, 1, 0, 0]


def test_a_batch_that_is_laid_out_differently_is_another_kind():
    """Rows and columns of a square: the same shape, and sums of other bits."""
    replay, f = Replay(), Counted(lambda m, b, f: [b[0].flatten()[:3] - m[0]])
    square, called = numbers(3, 3), []
    for _ in range(3):
        for value in (square, square.t()):
            before = f.calls
            result = replay.series("f", f, [])([numbers(3)], [value])
            assert torch.equal(result[0], value.flatten()[:3] - numbers(3))
            called.append(f.calls - before)
    assert called == [1, 1, 1, 1, 0, 0]


@both_ways
def test_calls_of_different_kinds_take_turns_in_a_series(in_place: bool):
    """As a short batch after whole ones."""
    f = Counted(lambda m, b, f: [m[0] + b[0].mean()])
    series = Replay().series("f", f, [], in_place)
    for k, n in enumerate([4, 4, 4, 3, 4, 3, 4, 3, 3, 4]):
        batch = numbers(n, seed=k)
        assert torch.equal(series([numbers(2)], [batch])[0], numbers(2) + batch.mean())
    assert f.calls == 4


def test_fixed_arguments_of_another_kind_are_recorded_anew():
    replay, f = Replay(), Counted(lambda m, b, f: [m[0] + f[0].sum()])
    for n, expected in [(2, 1), (3, 1), (2, 1), (3, 1), (2, 0), (3, 0)]:
        before = f.calls
        result = replay.series("f", f, [numbers(n)])([numbers(4)], [])
        assert f.calls - before == expected
        assert torch.equal(result[0], numbers(4) + numbers(n).sum())


def test_functions_of_different_names_do_not_mix():
    replay = Replay()
    functions = {"one": Counted(), "other": Counted(lambda m, b, f: [m[0] - b[0]])}
    called = [f.check(replay, numbers(4), name=name) for _ in range(4) for name, f in functions.items()]
    assert called == [1, 1, 1, 1, 0, 0, 0, 0]


def test_what_works_in_place_does_not_mix_with_what_does_not():
    replay, f = Replay(), Counted()
    called = [f.check(replay, numbers(4), in_place) for _ in range(3) for in_place in (True, False)]
    assert called == [1, 1, 1, 1, 0, 0]
    value = numbers(4)
    replay.series("f", f, [torch.tensor(2.0, dtype=torch.float64)])([value], [value])
    assert torch.equal(value, numbers(4))


@both_ways
def test_a_series_uses_its_own_fixed_values(in_place: bool):
    """Also two series that take turns."""
    replay, f = Replay(), Counted()
    fixed = [torch.tensor(x, dtype=torch.float64) for x in (2.0, 3.0)]
    series = [replay.series("f", f, [value], in_place) for value in fixed]
    for k in range(4):
        for value, calls in zip(fixed, series, strict=True):
            expected = numbers(4) * 0.5 + numbers(4, seed=k) * value
            assert torch.equal(calls([numbers(4)], [numbers(4, seed=k)])[0], expected)
    assert f.calls == 2
    assert f.check(replay, numbers(4), in_place, fixed=7.0) == 0


@both_ways
def test_arguments_that_are_one_tensor_at_first_and_two_later_are_told_apart(in_place: bool):
    """As a server state that begins as two names for x^0."""

    def difference(m: list[Tensor], b: list[Tensor], f: list[Tensor]) -> list[Tensor]:
        return [m[0] + f[0] - 2 * f[1] + f[0][1:].sum() - 3 * f[1][1:].sum() + b[0] - 2 * b[1]]

    replay, x = Replay(), numbers(4)
    for k in range(5):
        fixed, batch = ([x, x], [x, x]) if k < 2 else ([numbers(4, seed=i) for i in (k, k + 9)] for _ in range(2))
        result = replay.series("f", difference, fixed, in_place)([numbers(4)], batch)
        assert torch.equal(result[0], difference([numbers(4)], batch, fixed)[0])


@both_ways
def test_arguments_that_are_parts_of_one_tensor_at_first_and_apart_later_are_told_apart(in_place: bool):
    def difference(m: list[Tensor], b: list[Tensor], f: list[Tensor]) -> list[Tensor]:
        return [m[0] + f[0] - 2 * f[1].view(2, 2).flatten()]

    replay, x = Replay(), numbers(6)
    for k in range(5):
        fixed = [x[:4], x.detach()[:4]] if k < 2 else [numbers(4, seed=k), numbers(4, seed=k + 9)]
        result = replay.series("f", difference, fixed, in_place)([numbers(4)], [])
        assert torch.equal(result[0], difference([numbers(4)], [], fixed)[0])


def test_only_so_many_kinds_are_remembered(monkeypatch: pytest.MonkeyPatch):
    """The oldest is forgotten, and recorded anew when it comes back."""
    monkeypatch.setattr(module, "KEPT", 3)
    replay, f = Replay(), Counted()
    called = {n: [f.check(replay, numbers(n)) for _ in range(3)] for n in (1, 2, 3)}
    assert called == {n: [1, 1, 0] for n in (1, 2, 3)}
    assert f.check(replay, numbers(1)) == 0
    assert [f.check(replay, numbers(4)) for _ in range(3)] == [1, 1, 0]
    assert [f.check(replay, numbers(n)) for n in (2, 3, 4)] == [0, 0, 0]
    assert f.check(replay, numbers(1)) == 1


def test_data_of_ever_changing_shapes_does_not_fill_the_memory():
    replay, f = Replay(), Counted()
    for n in range(1, 3 * module.KEPT):
        f.check(replay, numbers(n))
        f.check(replay, numbers(n))
    assert len(replay._known) <= module.KEPT


UNRECORDABLE: dict[str, Function] = {
    "a branch": lambda m, b, f: [m[0] * 0.5 + b[0] if b[0].sum() > 0 else m[0] - b[0]],
    "a number of numpy": lambda m, b, f: [m[0] + b[0] * float(b[0].numpy()[0])],
    "a list": lambda m, b, f: [m[0] + b[0] * (2 if b[0].tolist()[0] > 0 else 3)],
}


@both_ways
@pytest.mark.parametrize("name", UNRECORDABLE)
def test_what_cannot_be_recorded_is_always_called(name: str, in_place: bool):
    replay, f = Replay(), Counted(UNRECORDABLE[name])
    assert [f.check(replay, numbers(4, seed=k), in_place) for k in range(8)] == [1] * 8


@both_ways
def test_a_function_that_reads_numbers_is_right_also_when_they_change_late(in_place: bool):
    """The first calls see positive numbers only."""
    reading: dict[str, Callable[[Tensor], bool]] = {
        "if": lambda x: bool(x[0] > 0), "tolist": lambda x: x.tolist()[0] > 0, "numpy": lambda x: x.numpy()[0] > 0,
    }  # fmt: skip
    for name, positive in reading.items():
        replay, f = Replay(), Counted(lambda m, b, f, yes=positive: [m[0] + (b[0] if yes(b[0]) else 3 * b[0])])
        for k in range(5):
            f.check(replay, numbers(4).abs() * (1 if k < 3 else -1), in_place, name)


@both_ways
@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("make", [lambda: itertools.count(1).__next__, lambda: random.Random(0).random])
def test_a_function_that_changes_from_call_to_call_is_called_every_time(make, as_tensor: bool, in_place: bool):
    """A counter, and Python's random numbers."""
    number, twin = make(), make()
    factor = (lambda: torch.tensor(number(), dtype=torch.float64)) if as_tensor else number
    series = Replay().series("f", lambda m, b, f: [m[0] * factor()], [], in_place)
    for _ in range(8):
        assert torch.equal(series([numbers(4)], [])[0], numbers(4) * twin())


def test_a_function_with_a_generator_of_its_own_goes_on_drawing_from_it():
    generator = torch.Generator().manual_seed(1)
    series = Replay().series("f", lambda m, b, f: [b[0] + torch.rand(3, generator=generator)], [])
    drawn = [series([], [torch.zeros(3)])[0] for _ in range(5)]
    generator = torch.Generator().manual_seed(1)
    assert torch.equal(torch.stack(drawn), torch.stack([torch.rand(3, generator=generator) for _ in range(5)]))


def test_a_function_that_works_with_sparse_tensors_is_right():
    sparse = torch.eye(3, dtype=torch.float64).to_sparse()
    series = Replay().series("f", lambda m, b, f: [torch.sparse.mm(sparse, b[0])], [])
    for k in range(4):
        assert torch.equal(series([], [numbers(3, 2, seed=k)])[0], numbers(3, 2, seed=k))


@pytest.mark.parametrize("name", ["recordable", "a branch"])
def test_no_call_leaves_a_trace_for_gradients(name: str):
    """The first, the second, a replayed one, and one that is run as it is written."""
    f = Counted(UNRECORDABLE.get(name))
    weight = numbers(4).requires_grad_()
    series = Replay().series("f", f, [weight.sum()])
    for k in range(4):
        (result,) = series([weight], [numbers(4, seed=k)])
        assert not result.requires_grad


@pytest.mark.parametrize("name", ["recordable", "a branch"])
def test_what_is_given_away_comes_back_in_memory_of_its_own_from_the_first_call_on(name: str):
    def f(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        value = batch[0] if name == "recordable" or batch[0].sum() > 100 else batch[0].view(4)
        return [value, value, fixed[0], value]

    fixed = [numbers(4, seed=1)]
    series = Replay().series("f", f, fixed, in_place=True)
    for k in range(4):
        batch = [numbers(4, seed=k)]
        *moving, other = series([numbers(4) for _ in range(3)], batch)
        for value in moving:
            value.zero_()
        assert torch.equal(batch[0], numbers(4, seed=k))
        assert torch.equal(other, numbers(4, seed=k))
        assert torch.equal(fixed[0], numbers(4, seed=1))


def test_a_replayed_call_does_not_give_a_constant_away():
    """`zero_` stands for what the next call does with its memory."""
    constant = numbers(2, 2)
    replay = Replay()
    for k in range(5):
        series = replay.series("f", lambda m, b, f: [constant], [], in_place=True)
        (value,) = series([numbers(2, 2)], [])
        assert torch.equal(value, numbers(2, 2))
        if k >= 2:
            value.zero_()


def test_an_error_in_a_call_is_the_functions_own_and_is_forgotten():
    wrong = [True, False, True, False, False, False]

    def f(moving: list[Tensor], batch: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        if wrong.pop(0):
            raise ValueError("not today")
        return [batch[0] * 2]

    series = Replay().series("f", f, [])
    for k, fails in enumerate([True, False, True, False, False, False, False]):
        if fails:
            with pytest.raises(ValueError, match="not today"):
                series([], [numbers(4, seed=k)])
        else:
            assert torch.equal(series([], [numbers(4, seed=k)])[0], 2 * numbers(4, seed=k))
    assert wrong == [False, False]
