"""Federations whose model has several inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from driftless.data.federation import Federation
from driftless.data.held_out import hold_out
from driftless.errors import InputError


def ids_and_mask(n: int, label: int = 0) -> tuple[dict[str, Any], list[int]]:
    """Ids are integers, weights numbers, the mask is of truth values."""
    inputs = {"ids": torch.full((n, 3), n), "weight": np.full(n, n / 2), "mask": torch.ones(n, 3, dtype=torch.bool)}
    return inputs, [label] * n


def federation(**options: Any) -> Federation:
    pairs = [ids_and_mask(2), ids_and_mask(3, 1), ids_and_mask(1, 2)]
    return Federation.from_clients(pairs, test=ids_and_mask(4), client_test=[None, *pairs[1:]], **options)


def test_a_dict_keeps_its_names_and_each_input_its_type():
    made = federation()
    assert isinstance(made.inputs, dict)
    assert {name: (part.dtype, tuple(part.shape)) for name, part in made.inputs.items()} == {
        "ids": (torch.int64, (6, 3)), "weight": (torch.float64, (6,)), "mask": (torch.bool, (6, 3))
    }  # fmt: skip
    inputs, targets = made.client(1)
    assert inputs["ids"].tolist() == [[3, 3, 3]] * 3
    assert inputs["weight"].tolist() == [1.5] * 3
    assert targets.tolist() == [1, 1, 1]
    assert inputs["ids"].untyped_storage().data_ptr() == made.inputs["ids"].untyped_storage().data_ptr()
    assert "inputs ids [3] int64, weight [] float64, mask [3] bool, targets int64" in made.describe()


def test_a_tuple_of_tensors_or_arrays_is_several_inputs_and_a_tuple_of_numbers_is_rows():
    targets = [0, 1, 0]
    several = Federation.from_clients([((torch.ones(3, 2), np.zeros(3)), targets)])
    assert isinstance(several.inputs, tuple)
    assert [tuple(part.shape) for part in several.inputs] == [(3, 2), (3,)]
    assert Federation.from_clients([((1.0, 2.0, 3.0), targets)]).input_shape == ()
    assert Federation.from_clients([([torch.ones(2)] * 3, targets)]).input_shape == (2,)


def test_select_to_and_hold_out_keep_all_inputs_together():
    made = federation()
    chosen = made.select([2, 1])
    assert chosen.client(1)[0]["weight"].tolist() == [1.5] * 3
    assert chosen.client_test is not None
    assert chosen.client_test.client(0)[0]["ids"].tolist() == [[1, 1, 1]]
    single = made.to(torch.float32)
    assert isinstance(single.inputs, dict)
    assert single.inputs["weight"].dtype == torch.float32
    assert single.inputs["mask"].dtype == torch.bool
    assert single.test is not None
    assert single.test[0]["weight"].dtype == torch.float32
    held = hold_out(made, 1, seed=0)
    assert held.clients == 2
    assert held.validation is not None
    assert isinstance(held.validation.inputs, dict)


def test_an_assignment_sorts_all_inputs_alike():
    rows = np.arange(4)
    made = Federation.from_assignment({"a": rows, "b": 10.0 * rows}, rows % 2, [1, 0, 1, 0], 2)
    assert made.client(0)[0]["a"].tolist() == [1, 3]
    assert made.client(0)[0]["b"].tolist() == [10.0, 30.0]


def test_the_order_of_a_clients_inputs_does_not_matter():
    inputs, targets = ids_and_mask(2)
    made = Federation.from_clients([(inputs, targets), (dict(reversed(inputs.items())), targets)])
    assert isinstance(made.inputs, dict)
    assert list(made.inputs) == ["ids", "weight", "mask"]
    assert made.client(0)[0]["weight"].tolist() == made.client(1)[0]["weight"].tolist()


def without(name: str) -> tuple[dict[str, Any], list[int]]:
    inputs, targets = ids_and_mask(2)
    del inputs[name]
    return inputs, targets


def but(**changed: Any) -> tuple[dict[str, Any], list[int]]:
    inputs, targets = ids_and_mask(2)
    return inputs | changed, targets


PAIR = torch.ones(2, 3), torch.ones(2)


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        ([but(mask=torch.ones(3, 3))], r"client 0 have different numbers of rows \(ids: 2, weight: 2, mask: 3\)"),
        ([ids_and_mask(2), without("mask")], "client 1 are a dict of ids, weight, .* client 0 a dict of ids, mask"),
        ([ids_and_mask(2), but(other=torch.ones(2))], "client 1 are a dict of ids, mask, other, weight"),
        ([ids_and_mask(2), (torch.ones(2, 3), [0, 0])], "client 1 are one tensor, those of client 0 a dict"),
        ([(PAIR, [0, 0]), ((*PAIR, PAIR[1]), [0, 0])], "client 1 are a tuple of 3 tensors, .* a tuple of 2 tensors"),
        ([(PAIR, [0, 0, 0])], "client 0 has 2 inputs but 3 targets"),
        ([({}, [0])], r"the inputs of client 0 are a dict with the keys \[\]; give the arguments"),
        ([({1: [1.0]}, [0])], r"the inputs of client 0 are a dict with the keys \[1\]"),
        ([((), [])], "the inputs of client 0 are an empty tuple"),
        ([but(ids=["a", "b"])], "input 'ids' of client 0 have the type <U1; give numbers: text needs a tokenizer"),
        ([but(ids=[[1, 2], [1]])], "input 'ids' of client 0 do not form an array .* pad the shorter ones"),
        ([but(ids=[torch.ones(2), torch.ones(3)])], "input 'ids' of client 0 do not form an array .* pad"),
        ([but(ids=[None, 1])], "input 'ids' of client 0 have the type object; .* none that is missing"),
        (
            [ids_and_mask(2), but(mask=torch.ones(2, 4, dtype=torch.bool))],
            r"the values of input 'mask' of client 1 have the shape \[4\] per example, those of client 0 \[3\]; .* pad",
        ),
        ([but(weight=torch.tensor([1.0, np.nan]))], "client 0 has 1 non-finite values .* in its input 'weight'"),
    ],
)  # fmt: skip
def test_inputs_that_do_not_belong_together_are_named(clients: Any, message: str):
    with pytest.raises(InputError, match=message):
        Federation.from_clients(clients)


def test_a_test_set_needs_the_same_inputs():
    for test in (without("ids"), (torch.ones(2, 3), [0, 0])):
        with pytest.raises(InputError, match=r"the inputs of the test set are .*, those of the clients a dict of ids"):
            Federation.from_clients([ids_and_mask(2)], test=test)


def test_an_input_of_another_shape_in_a_federation_made_by_hand_is_refused():
    inputs: dict[str, Tensor] = {"a": torch.ones(2), "b": torch.ones(3)}
    with pytest.raises(InputError, match="different numbers of rows"):
        Federation(inputs, torch.zeros(2), np.array([0, 2]))
