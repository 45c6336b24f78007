from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from driftless.engine.tree import leaves, map_leaves, named_leaves, with_leaves


class Inner(NamedTuple):
    a: Tensor
    b: tuple[Tensor, ...]


class Outer(NamedTuple):
    inner: Inner
    c: Tensor
    empty: tuple[()] = ()


def numbers(*values: float) -> list[Tensor]:
    return [torch.tensor(value) for value in values]


def example() -> Outer:
    a, b0, b1, c = numbers(1, 2, 3, 4)
    return Outer(Inner(a, (b0, b1)), c)


def test_leaves_come_in_the_order_of_the_fields_with_dotted_names():
    assert [name for name, _ in named_leaves(example())] == ["inner.a", "inner.b.0", "inner.b.1", "c"]
    assert [float(leaf) for leaf in leaves(example())] == [1, 2, 3, 4]
    assert leaves(()) == []
    assert [name for name, _ in named_leaves(torch.tensor(1.0))] == [""]


def test_mapping_keeps_the_types_and_pairs_the_leaves_of_several_trees():
    doubled = map_leaves(lambda one, other: one * 10 + other, example(), example())
    assert type(doubled) is Outer
    assert type(doubled.inner) is Inner
    assert type(doubled.inner.b) is tuple
    assert [float(leaf) for leaf in leaves(doubled)] == [11, 22, 33, 44]


def test_leaves_can_be_replaced_in_order():
    replaced = with_leaves(example(), numbers(5, 6, 7, 8))
    assert type(replaced) is Outer
    assert float(replaced.inner.b[1]) == 7
    assert float(replaced.c) == 8


def test_the_leaves_of_a_dict_go_by_name_whatever_its_order():
    one, other = {"b": torch.tensor(2.0), "a": torch.tensor(1.0)}, {"a": torch.tensor(1.0), "b": torch.tensor(2.0)}
    assert [name for name, _ in named_leaves((one,))] == ["0.a", "0.b"]
    assert [float(leaf) for leaf in leaves(one)] == [float(leaf) for leaf in leaves(other)] == [1, 2]
    added = map_leaves(lambda x, y: x + y, one, other)
    assert {name: float(leaf) for name, leaf in added.items()} == {"b": 4, "a": 2}
    assert list(added) == ["b", "a"]
    assert {name: float(leaf) for name, leaf in with_leaves(one, numbers(5, 6)).items()} == {"b": 6, "a": 5}
