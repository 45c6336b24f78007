"""Random functions of tensors are replayed to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.graph.series import Arguments, Tensors, check_series, numbers


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
    changing: list[int]
    """For each result that the next call gets, which of the values that have its shape."""
    others: list[int]

    def __call__(self, changing: Tensors, new: Tensors, fixed: Tensors) -> Tensors:
        values = [*fixed, *new, *changing]
        for operation, a, b in self.instructions:
            one, two = (values[-1 - i % len(values)] for i in (a, b))
            unary = operation < len(UNARY)
            if unary and one.dim() and one.numel():
                values.append(UNARY[operation](one))
            elif not unary and fits(BINARY[operation - len(UNARY)], one, two):
                values.append(BINARY[operation - len(UNARY)](one, two))
        results = []
        for before, i in zip(changing, self.changing, strict=True):
            alike = [value for value in values if value.shape == before.shape]
            results.append(alike[-1 - i % len(alike)])
        return (*results, *(values[-1 - i % len(values)] for i in self.others))


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
    (numbers(4, 4), numbers(4, 4, seed=1), numbers(8, seed=2)),
    lambda k: (numbers(4, 4, seed=10 + k), numbers(8, seed=20 + k)),
    (numbers(4, 4, seed=3), numbers(8, seed=4), numbers(1, seed=5)),
)


@given(programs, st.booleans())
@settings(max_examples=250)
def test_random_programs_are_replayed_to_the_bit(program: Written, in_place: bool):
    check_series(program, ARGUMENTS, in_place)
