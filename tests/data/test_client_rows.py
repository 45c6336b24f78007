"""What `from_clients` takes for a client, and `from_assignment` for a group."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from driftless.data.federation import Federation
from driftless.errors import InputError

PAIRS = {"ann": (torch.ones(2, 3), torch.tensor([0, 1])), "bob": (torch.zeros(3, 3), torch.tensor([1, 1, 0]))}
EXPECTED = Federation.from_clients(list(PAIRS.values()))


def table(inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, Any]:
    return {"x": inputs.numpy(), "label": targets.numpy()}


def hugging_face(inputs: torch.Tensor, targets: torch.Tensor) -> datasets.Dataset:
    return datasets.Dataset.from_dict(table(inputs, targets))


def test_the_keys_of_a_dict_are_the_clients_names():
    made = Federation.from_clients(PAIRS, client_test={"bob": PAIRS["ann"]})
    assert made.client_names == ("ann", "bob")
    assert torch.equal(made.inputs, EXPECTED.inputs)
    assert made.client_test is not None
    assert made.client_test.sizes.tolist() == [0, 2]
    assert Federation.from_clients({3: PAIRS["ann"]}).client_names == ("3",)


@pytest.mark.parametrize(
    "form",
    [
        TensorDataset,
        lambda inputs, targets: (inputs.numpy(), targets.numpy()),
        lambda inputs, targets: [inputs, targets],
        lambda inputs, targets: TensorDataset(inputs, targets) if len(targets) == 2 else (inputs, targets),
    ],
    ids=["TensorDataset", "arrays", "list", "mixed"],
)
def test_a_client_may_be_a_data_set_or_arrays(form: Any):
    made = Federation.from_clients([form(*pair) for pair in PAIRS.values()])
    assert made.fingerprint == EXPECTED.fingerprint


@pytest.mark.parametrize("form", [table, hugging_face])
def test_the_columns_of_clients_that_are_tables_are_named(form: Any):
    clients = [form(*pair) for pair in PAIRS.values()]
    made = Federation.from_clients(clients, test=clients[0], client_test=clients, input="x", target="label")
    np.testing.assert_array_equal(made.inputs, EXPECTED.inputs)
    assert torch.equal(made.targets, EXPECTED.targets)
    assert made.test is not None
    assert made.client_test is not None
    assert made.client_test.sizes.tolist() == [2, 3]


def test_a_list_of_dicts_is_a_client_whatever_its_length():
    rows = [[{"x": [1.0, 2.0], "y": 1}] * n for n in (1, 2, 3)]
    assert Federation.from_clients(rows, input="x", target="y").sizes.tolist() == [1, 2, 3]


def test_a_share_of_every_client_may_be_kept_for_its_test():
    made = Federation.from_clients(PAIRS, client_test=0.4)
    assert made.sizes.tolist() == [1, 2]
    assert made.client_test is not None
    assert made.client_test.sizes.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("clients", "options", "message"),
    [
        ({}, {}, "at least one client, got none"),
        (PAIRS, {"client_names": ["a", "b"]}, "the keys of a dict of clients are their names"),
        (PAIRS, {"client_test": {"eve": None}}, "unknown client in client_test 'eve'"),
        (list(PAIRS.values()), {"client_test": {"ann": None}}, "unknown client in client_test 'ann'"),
        (list(PAIRS.values()), {"client_test": {1, 2}}, "client_test must be a list with an entry for each client"),
        (TensorDataset(*PAIRS["ann"]), {}, "clients must be a list .*got a TensorDataset; .*from_dataset"),
        (PAIRS["ann"], {}, "got a tuple; for all inputs and targets use .*from_dataset.*from_assignment"),
        (hugging_face(*PAIRS["ann"]).to_pandas(), {}, "got a DataFrame; for a data frame use .*from_frame"),
        (hugging_face(*PAIRS["ann"]), {}, "got a Dataset; for one data set use .*from_dataset"),
        ("digits", {}, r"got a str; .*driftless\.load\('digits'"),
        ([PAIRS["ann"], torch.ones(3)], {}, "client 1 is not a pair; give .* got a Tensor"),
        ([PAIRS["ann"], (1, 2, 3)], {}, "client 1 is not a pair"),
        ([[(1.0, 0), (2.0, 1)]], {}, "client 0 is a list of two tuples: two examples, or inputs and targets"),
        ([table(*PAIRS["ann"])], {}, "client 0 has the columns x, label; name the one of the targets"),
        ([PAIRS["ann"], (torch.ones(2, 3), ["a", "b"])], {}, "targets of client 1 have the type <U1; .*from_dataset"),
        ([TensorDataset(*PAIRS["ann"]), TensorDataset(torch.ones(2, 4), torch.ones(2).long())], {},
         r"the inputs of client 1 have the shape \[4\] per example, those of client 0 \[3\]"),
        ([PAIRS["ann"]], {"test": 5}, "the test set is not a pair"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_answered_with_what_would(clients: Any, options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        Federation.from_clients(clients, **options)


@pytest.mark.parametrize(
    ("groups", "names", "first"),
    [
        (["b", "a", "b", "c"], ("b", "a", "c"), [0, 2]),
        (np.array(["b", "a", "b", "c"]), ("b", "a", "c"), [0, 2]),
        ([7, 3, 7, 5], ("3", "5", "7"), [1]),
        (torch.tensor([7, 3, 7, 5]), ("3", "5", "7"), [1]),
        ([("x", 1), ("y",), ("x", 1), None.__class__], ("('x', 1)", "('y',)", "<class 'NoneType'>"), [0, 2]),
        ([True, False, True, False], ("True", "False"), [0, 2]),
    ],
)
def test_groups_of_any_kind_are_clients_of_that_name(groups: Any, names: tuple[str, ...], first: list[int]):
    made = Federation.from_assignment(np.arange(4.0), [0, 1, 0, 1], groups)
    assert made.client_names == names
    assert made.client(0)[0].tolist() == first


@pytest.mark.parametrize(
    ("groups", "clients", "message"),
    [
        (["a", "b", "a", "b"], 3, "assignment has 2 different groups, and clients=3; leave clients out"),
        (["a", "b", "a"], None, "assignment has 3 entries for 4 examples"),
        ([["a"], ["b"], ["a"], ["b"]], None, "assignment must be names or numbers, one per example"),
        (["a", None, "a", "b"], None, r"assignment is missing \(None\) for some examples"),
        ([0.5, 1.5, 0.5, 1.5], None, "one-dimensional array of integers, got float64"),
    ],
)
def test_groups_that_cannot_be_clients_are_an_error(groups: Any, clients: int | None, message: str):
    with pytest.raises(InputError, match=message):
        Federation.from_assignment(np.arange(4.0), [0, 1, 0, 1], groups, clients)


def test_names_may_still_be_given_for_groups():
    made = Federation.from_assignment(np.arange(2.0), [0, 1], ["a", "b"], client_names=["Ann", "Bob"])
    assert made.client_names == ("Ann", "Bob")
