"""A series of calls of a function, replayed, compared with the function as written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from driftless.engine.graph.record import Function, copied
from driftless.engine.graph.replay import Replay
from driftless.engine.tree import structure

Tensors = tuple[Tensor, ...]


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


CONSTANT = numbers(4, 4, seed=6)
CALLS = 6
CALLED = (0, 1, 2, 5)
"""Which of six calls of a kind run the function: the two that are recorded, and the two that are checked."""


class Arguments(NamedTuple):
    changing: Tensors
    new: Callable[[int], Tensors]
    """Of call k."""
    fixed: Tensors


def check_series(f: Function, arguments: Arguments, in_place: bool = True) -> None:
    """Compare a series of calls with the function as written: same bits, no argument changed, `changing` not shared.

    The first results are the next `changing`; a function may have more results than these.
    """
    called: list[int] = []

    def counted(changing: Tensors, new: Tensors, fixed: Tensors) -> Tensors:
        called.append(1)
        return f(changing, new, fixed)

    fixed = tuple(value.clone() for value in arguments.fixed)
    series = Replay().series("f", counted, fixed, in_place)
    now, kinds = tuple(value.clone() for value in arguments.changing), Counter()
    kept = [(CONSTANT, CONSTANT.clone()), *zip(fixed, arguments.fixed, strict=True)]
    for k in range(CALLS):
        new = tuple(value.clone() for value in arguments.new(k))
        if not in_place:
            now = tuple(value.clone() for value in now)
            kept += [(value, copied(value)) for value in now]
        expected = f(tuple(copied(value) for value in now), arguments.new(k), arguments.fixed)
        expected = tuple(value.clone() for value in expected)
        kinds[structure((now, new))] += 1
        results = series(now, new)
        for i, (result, value) in enumerate(zip(results, expected, strict=True)):
            assert same_bits(result, value), f"call {k}, result {i}: {result} instead of {value}"
        kept += zip(new, arguments.new(k), strict=True)
        now = results[: len(now)]
        kept += zip(results[len(now) :], expected[len(now) :], strict=True)
        if in_place:
            taken = {address(value) for value, _ in kept if value.numel()}
            for value in now:
                assert address(value) not in taken, f"call {k}: a result for the next call shares its memory"
                taken.add(address(value))
    assert all(same_bits(value, before) for value, before in kept), "something was written over"
    assert len(called) == sum(k < number for number in kinds.values() for k in CALLED), "not all was replayed"
