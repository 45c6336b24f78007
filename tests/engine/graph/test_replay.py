"""Which calls are recorded, which are replayed, which of these are checked, and for which arguments."""

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
from driftless.engine.tree import Tree, leaves
from driftless.errors import InputError
from engine.graph.series import numbers

both_ways = pytest.mark.parametrize("in_place", [False, True])

CALLED = [1, 1, 1, 0, 0, 1, 0, 0]
"""How often a function is called for each call of a series: recorded twice, then checked at the first and fourth."""


def scaled_sum(changing: Tensor, new: Tensor, fixed: Tensor) -> Tensor:
    return changing * 0.5 + new * fixed


class Counted:
    """A function that counts its calls."""

    def __init__(self, f: Function = scaled_sum) -> None:
        self.f = f
        self.calls = 0

    def __call__(self, changing: Tree, new: Tree, fixed: Tree) -> Tree:
        self.calls += 1
        return self.f(changing, new, fixed)

    def check(self, replay: Replay, value: Tensor, in_place: bool = False, name: str = "f", fixed: float = 2.0) -> int:
        """One call in a series of its own, which must be right; returns how often the function was called for it."""
        before, factor = self.calls, torch.tensor(fixed, dtype=value.dtype)
        result = replay.series(name, self, factor, in_place)(value.clone(), value)
        called = self.calls - before
        assert torch.equal(result, self.f(value, value, factor))
        return called


# -------------------------------------------------------------------------------------- recorded, replayed, and checked


@both_ways
def test_two_calls_are_recorded_and_all_others_replayed(in_place: bool):
    replay, f = Replay(), Counted()
    assert [f.check(replay, numbers(4, seed=k), in_place) for k in range(8)] == CALLED


@both_ways
def test_the_calls_of_one_series_are_replayed_too(in_place: bool):
    f, factor = Counted(), torch.tensor(2.0, dtype=torch.float64)
    series = Replay().series("f", f, factor, in_place)
    now = written = numbers(4)
    for k in range(8):
        now, written = series(now, numbers(4, seed=k)), scaled_sum(written, numbers(4, seed=k), factor)
        assert torch.equal(now, written)
    assert f.calls == sum(CALLED)


def test_the_first_the_fourth_the_sixteenth_replayed_calls_are_checked_and_so_on():
    replay, f = Replay(), Counted()
    called = [f.check(replay, numbers(4, seed=k)) for k in range(2 + 70)]
    assert [k - 1 for k, times in enumerate(called) if times][2:] == [1, 4, 16, 64]


@both_ways
def test_replaying_can_be_turned_off(in_place: bool):
    replay, f = Replay(enabled=False), Counted()
    assert [f.check(replay, numbers(4, seed=k), in_place) for k in range(8)] == [1] * 8


@both_ways
def test_a_function_that_changes_later_is_noticed_by_the_check(in_place: bool):
    factor = 0.5
    replay, f = Replay(), Counted(lambda c, n, _: c * factor + n)
    for k in range(5):
        f.check(replay, numbers(4, seed=k), in_place)
    factor = 0.6
    with pytest.raises(InputError, match=r"differs from the step as written.* Set engine\.replay=false"):
        f.check(replay, numbers(4), in_place)
    assert f.check(Replay(enabled=False), numbers(4), in_place) == 1


LATER: dict[str, Callable[[Tensor], Tree]] = {
    "another number of results": lambda x: (x, x),
    "another shape": lambda x: x[:1],
    "another type": lambda x: x.double(),
    "not a number": lambda x: x / 0 * 0,
}


@pytest.mark.parametrize("name", LATER)
def test_a_result_of_another_kind_is_noticed_by_the_check(name: str):
    later = False
    series = Replay().series("f", lambda _, new, fixed: LATER[name](new) if later else new * 1, ())
    for _ in range(5):
        series((), torch.ones(4))
    later = True
    with pytest.raises(InputError, match=r"engine\.replay=false"):
        series((), torch.ones(4))


def test_a_tensor_that_counts_calls_is_noticed_by_the_check():
    steps = torch.zeros(())
    series = Replay().series("f", lambda _, new, fixed: new * steps.add_(1), ())
    assert [series((), torch.ones(1)).item() for _ in range(2)] == [1, 2]
    with pytest.raises(InputError, match=r"engine\.replay=false"):
        series((), torch.ones(1))


def test_a_result_that_is_not_a_number_twice_passes_the_check():
    series = Replay().series("f", lambda _, new, fixed: (new / 0 * 0, new > 0, new.to(torch.complex128) / 0), ())
    for _ in range(8):
        assert series((), torch.ones(4))[0].isnan().all()


def test_the_check_computes_on_numbers_that_lie_in_memory_as_the_given_ones_do():
    """The last bits of a sum depend on it."""
    series = Replay().series("f", lambda c, n, f: (c, n.sum(0) * c), ())
    table, now = numbers(1000, 64), numbers()
    for k in range(8):
        new = table[:, k::8]
        now, total = series(now, new)
        assert torch.equal(total, new.sum(0) * now)


# ------------------------------------------------------------------------------------------------ which calls are alike


@both_ways
@pytest.mark.parametrize(
    "other",
    [numbers(5), numbers(2, 2), numbers(4).float(), numbers(8)[::2], numbers(1).expand(4)],
    ids=["length", "shape", "type", "distance in memory", "expanded"],
)
def test_arguments_of_another_kind_are_recorded_anew(other: Tensor, in_place: bool):
    replay, f = Replay(), Counted()
    called = [f.check(replay, value, in_place) for _ in CALLED for value in (numbers(4), other)]
    assert called == [n for n in CALLED for _ in range(2)]


def test_new_arguments_that_are_laid_out_differently_are_another_kind():
    """Rows and columns of a square: the same shape, and sums of other bits."""
    replay, f = Replay(), Counted(lambda c, n, f: n.flatten()[:3] - c)
    square, called = numbers(3, 3), []
    for _ in range(4):
        for value in (square, square.t()):
            before = f.calls
            result = replay.series("f", f, ())(numbers(3), value)
            assert torch.equal(result, value.flatten()[:3] - numbers(3))
            called.append(f.calls - before)
    assert called == [1, 1, 1, 1, 1, 1, 0, 0]


def test_arguments_with_and_without_an_optional_tensor_are_different_kinds():
    replay, f = Replay(), Counted(lambda c, n, f: c if n is None else c + n)
    for expected in CALLED:
        for new in (None, numbers(4, seed=1)):
            before = f.calls
            result = replay.series("f", f, ())(numbers(4), new)
            assert torch.equal(result, numbers(4) if new is None else numbers(4) + new)
            assert f.calls - before == expected


@both_ways
def test_calls_of_different_kinds_take_turns_in_a_series(in_place: bool):
    """As a short batch after whole ones."""
    f = Counted(lambda c, n, f: c + n.mean())
    series = Replay().series("f", f, (), in_place)
    for k, n in enumerate([4, 4, 4, 3, 4, 3, 4, 3, 3, 3]):
        new = numbers(n, seed=k)
        assert torch.equal(series(numbers(2), new), numbers(2) + new.mean())
    assert f.calls == 2 * 3


def test_fixed_arguments_of_another_kind_are_recorded_anew():
    replay, f = Replay(), Counted(lambda c, n, f: c + f.sum())
    for expected in CALLED:
        for n in (2, 3):
            before = f.calls
            result = replay.series("f", f, numbers(n))(numbers(4), ())
            assert f.calls - before == expected
            assert torch.equal(result, numbers(4) + numbers(n).sum())


def test_functions_of_different_names_do_not_mix():
    replay = Replay()
    functions = {"one": Counted(), "other": Counted(lambda c, n, f: c - n)}
    called = [f.check(replay, numbers(4), name=name) for _ in CALLED for name, f in functions.items()]
    assert called == [n for n in CALLED for _ in functions]


def test_what_works_in_place_does_not_mix_with_what_does_not():
    replay, f = Replay(), Counted()
    called = [f.check(replay, numbers(4), in_place) for _ in CALLED for in_place in (True, False)]
    assert called == [n for n in CALLED for _ in range(2)]
    value = numbers(4)
    replay.series("f", f, torch.tensor(2.0, dtype=torch.float64))(value, value)
    assert torch.equal(value, numbers(4))


@both_ways
def test_a_series_uses_its_own_fixed_values(in_place: bool):
    """Also two series that take turns."""
    replay, f = Replay(), Counted()
    fixed = [torch.tensor(x, dtype=torch.float64) for x in (2.0, 3.0)]
    series = [replay.series("f", f, value, in_place) for value in fixed]
    for k in range(4):
        for value, calls in zip(fixed, series, strict=True):
            expected = numbers(4) * 0.5 + numbers(4, seed=k) * value
            assert torch.equal(calls(numbers(4), numbers(4, seed=k)), expected)
    assert f.calls == sum(CALLED)
    assert f.check(replay, numbers(4), in_place, fixed=7.0) == 0


@both_ways
def test_arguments_that_are_one_tensor_at_first_and_two_later_are_told_apart(in_place: bool):
    """As a server state that begins as two names for x^0."""

    def difference(changing: Tensor, new: tuple[Tensor, Tensor], fixed: tuple[Tensor, Tensor]) -> Tensor:
        a, b = fixed
        return changing + a - 2 * b + a[1:].sum() - 3 * b[1:].sum() + new[0] - 2 * new[1]

    replay, x = Replay(), numbers(4)
    for k in range(7):
        fixed = new = (x, x) if k < 2 else (numbers(4, seed=k), numbers(4, seed=k + 9))
        result = replay.series("f", difference, fixed, in_place)(numbers(4), new)
        assert torch.equal(result, difference(numbers(4), new, fixed))


@both_ways
def test_arguments_that_are_parts_of_one_tensor_at_first_and_apart_later_are_told_apart(in_place: bool):
    def difference(changing: Tensor, new: Tree, fixed: tuple[Tensor, Tensor]) -> Tensor:
        return changing + fixed[0] - 2 * fixed[1].view(2, 2).flatten()

    replay, x = Replay(), numbers(6)
    for k in range(7):
        fixed = (x[:4], x.detach()[:4]) if k < 2 else (numbers(4, seed=k), numbers(4, seed=k + 9))
        result = replay.series("f", difference, fixed, in_place)(numbers(4), ())
        assert torch.equal(result, difference(numbers(4), (), fixed))


def test_only_so_many_kinds_are_kept(monkeypatch: pytest.MonkeyPatch):
    """The oldest is dropped, and recorded anew when it comes back."""
    monkeypatch.setattr(module, "KINDS_KEPT", 3)
    replay, f = Replay(), Counted()
    for n in (1, 2, 3):
        assert [f.check(replay, numbers(n)) for _ in range(4)] == CALLED[:4]
    assert f.check(replay, numbers(1)) == 0
    assert [f.check(replay, numbers(4)) for _ in range(4)] == CALLED[:4]
    assert [f.check(replay, numbers(n)) for n in (2, 3, 4)] == [0, 0, 0]
    assert [f.check(replay, numbers(1)) for _ in range(4)] == CALLED[:4]


# ----------------------------------------------------------------------------------------------- what is never replayed

REFUSED: dict[str, Function] = {
    "a branch": lambda c, n, f: c * 0.5 + n if n.sum() > 0 else c - n,
    "a number of numpy": lambda c, n, f: c + n * float(n.numpy()[0]),
    "a list": lambda c, n, f: c + n * (2 if n.tolist()[0] > 0 else 3),
    "apply_": lambda c, n, f: c + n.clone().apply_(lambda number: number if number > 0 else 3 * number),
}


@both_ways
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_recorded_is_always_called(name: str, in_place: bool):
    """The first calls see positive numbers only."""
    replay, f = Replay(), Counted(REFUSED[name])
    signs = [1, 1, 1, -1, -1, 1, -1, 1]
    assert [f.check(replay, numbers(4, seed=k).abs() * s, in_place) for k, s in enumerate(signs)] == [1] * 8


@both_ways
@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("make", [lambda: itertools.count(1).__next__, lambda: random.Random(0).random])
def test_a_function_that_changes_from_call_to_call_is_called_every_time(make, as_tensor: bool, in_place: bool):
    """A counter, and Python's random numbers."""
    number, twin = make(), make()
    factor = (lambda: torch.tensor(number(), dtype=torch.float64)) if as_tensor else number
    series = Replay().series("f", lambda c, n, f: c * factor(), (), in_place)
    for _ in range(8):
        assert torch.equal(series(numbers(4), ()), numbers(4) * twin())


@both_ways
def test_a_function_that_draws_random_numbers_draws_the_same_as_without_replay(in_place: bool):
    def noisy(changing: Tensor, new: Tensor, fixed: Tree) -> Tensor:
        torch.rand(2)
        return changing * torch.rand(4) + torch.bernoulli(torch.full_like(new, 0.5))

    series = Replay().series("f", noisy, (), in_place)
    with torch.random.fork_rng():
        for k in range(6):
            torch.manual_seed(k)
            expected, state = noisy(numbers(4), numbers(4), ()), torch.random.get_rng_state()
            torch.manual_seed(k)
            assert torch.equal(series(numbers(4), numbers(4)), expected)
            assert torch.equal(torch.random.get_rng_state(), state)


def test_a_function_with_a_generator_of_its_own_continues_to_draw_from_it():
    generator = torch.Generator().manual_seed(1)
    series = Replay().series("f", lambda c, n, f: n + torch.rand(3, generator=generator), ())
    drawn = [series((), torch.zeros(3)) for _ in range(5)]
    generator = torch.Generator().manual_seed(1)
    assert torch.equal(torch.stack(drawn), torch.stack([torch.rand(3, generator=generator) for _ in range(5)]))


# --------------------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("f", [scaled_sum, REFUSED["a branch"]])
def test_no_result_requires_a_gradient(f: Function):
    """Recorded, replayed, checked, or run as written."""
    weight = numbers(4).requires_grad_()
    series = Replay().series("f", f, weight.sum())
    for k in range(5):
        assert not series(weight, numbers(4, seed=k)).requires_grad


@pytest.mark.parametrize("refused", [False, True])
def test_results_for_the_next_call_have_memory_of_their_own_from_the_first_call_on(refused: bool):
    def f(changing: Tree, new: Tensor, fixed: Tensor) -> Tree:
        value = new.view(4) if refused and new.sum() < 100 else new
        return value, value, fixed, value

    fixed = numbers(4, seed=1)
    series = Replay().series("f", f, fixed, in_place=True)
    for k in range(6):
        new = numbers(4, seed=k)
        *others, last = leaves(series(tuple(numbers(4) for _ in range(4)), new))
        for value in others:
            value.zero_()
        assert torch.equal(new, numbers(4, seed=k))
        assert torch.equal(last, numbers(4, seed=k))
        assert torch.equal(fixed, numbers(4, seed=1))


def test_a_constant_that_is_returned_is_not_written_over_by_the_next_call():
    constant = numbers(2, 2)
    series = Replay().series("f", lambda c, n, f: (constant, c[0] + c[1]), (), in_place=True)
    now = (numbers(2, 2, seed=1), numbers(2, 2, seed=2))
    for _ in range(6):
        expected = now[0] + now[1]
        now = series(now, ())
        assert torch.equal(constant, numbers(2, 2))
        assert torch.equal(now[0], constant)
        assert torch.equal(now[1], expected)


@pytest.mark.parametrize("part", [lambda x: x[:, ::2], lambda x: x.t()[::2].t(), lambda x: x[:, :1].expand(3, 32)])
def test_results_that_share_memory_are_laid_out_alike_with_and_without_replay(part: Callable[[Tensor], Tensor]):
    """Otherwise the last bits of a sum would differ."""

    def f(changing: tuple[Tensor, Tensor], new: Tensor, fixed: Tree) -> tuple[Tensor, Tensor]:
        total = changing[0] + new + changing[1].sum(1, keepdim=True)
        return total, part(total)

    runs = []
    for enabled in (False, True):
        series, now = Replay(enabled).series("f", f, (), in_place=True), (numbers(3, 64), numbers(3, 32))
        for k in range(8):
            now = series(now, numbers(3, 64, seed=k))
        runs.append(now)
    assert [leaf.stride() for leaf in runs[0]] == [leaf.stride() for leaf in runs[1]]
    assert all(map(torch.equal, *runs))


def test_an_error_in_a_call_is_the_functions_own_and_changes_nothing():
    fails = [True, False, True, False, False]

    def f(changing: Tree, new: Tensor, fixed: Tree) -> Tensor:
        if fails.pop(0):
            raise ValueError("an error of the function")
        return new * 2

    series = Replay().series("f", f, ())
    for k, fail in enumerate([*fails, False, False]):
        if fail:
            with pytest.raises(ValueError, match="an error of the function"):
                series((), numbers(4, seed=k))
        else:
            assert torch.equal(series((), numbers(4, seed=k)), 2 * numbers(4, seed=k))
    assert not fails
