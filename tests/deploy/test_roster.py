from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch

from driftless import Federation
from driftless.deploy.node import kind_of
from driftless.deploy.protocol import Joined
from driftless.deploy.refusal import Refused
from driftless.deploy.roster import (
    Member,
    Roster,
    check_joined,
    example_of,
    federation_of,
    new_run,
    read_roster,
    roster_of,
    write_roster,
)
from driftless.errors import InputError

RUN = "0123456789abcdef" * 2
JOINED = Joined(1, RUN, -1, 30, '["float32", [4]]', '["int64", []]', 3)
ROSTER = Roster(RUN, [Member(2**63 + 5, 30), Member(7, 20)], ["float32", [4]], ["int64", []], 3)


def test_runs_have_different_names():
    assert len({new_run() for _ in range(100)}) == 100


def test_a_roster_comes_back_from_its_file(tmp_path: Path):
    assert read_roster(tmp_path) is None
    write_roster(tmp_path, ROSTER)
    assert read_roster(tmp_path) == ROSTER


@pytest.mark.parametrize(
    "change",
    [
        {"run": 5}, {"run": "../.."}, {"members": []}, {"members": 3}, {"members": [["7", 20], ["7", 20]]},
        {"members": [["7"]]}, {"members": [["x", 20]]}, {"members": [["7", 0]]}, {"members": [["7", -5]]},
        {"members": [["7", 10**12]]}, {"members": [["7", float("inf")]]}, {"inputs": None}, {"inputs": ["object", []]},
        {"inputs": ["float32", [2**40]]}, {"targets": {"dict": []}}, {"classes": "3"}, {"classes": None},
        {"classes": -1}, {"classes": 10**9}, {"more": 1},
    ],
)  # fmt: skip
def test_a_changed_file_of_nodes_is_named(tmp_path: Path, change: dict[str, Any]):
    write_roster(tmp_path, ROSTER)
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=r"nodes.json' is damaged"):
        read_roster(tmp_path)


def test_a_node_with_possible_data_may_join():
    check_joined(JOINED, 4)
    check_joined(JOINED._replace(client=3, targets='["float32", [2]]', classes=0), 4)
    check_joined(JOINED._replace(inputs='{"dict": [["ids", "int64", [16]], ["mask", "bool", [16]]]}'), 4)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"examples": 0}, "it has 0 examples; allowed are 1 to 100000000"),
        ({"examples": 10**9}, "it has 1000000000 examples; allowed are"),
        ({"client": 4}, r"it asks for the number 4, and the clients are 0\.\.3"),
        ({"classes": 0}, "it has 0 classes; with targets of this type 1 to 1000000 are allowed"),
        ({"classes": 10**9}, "it has 1000000000 classes; with targets of this type"),
        ({"targets": '["float32", []]'}, "it has 3 classes; with targets of this type 0 to 0 are allowed"),
        ({"inputs": "{"}, "the description of its data is not JSON"),
        ({"inputs": "[" * 3000}, "the description of its data is not JSON"),
        ({"inputs": "null"}, "None is not the dtype and shape of a tensor"),
        ({"inputs": '"ab"'}, "ab is not the dtype and shape"),
        ({"inputs": '["Tensor", []]'}, "is not the dtype and shape"),
        ({"inputs": '["quint8", []]'}, "is not the dtype and shape"),
        ({"inputs": '["complex64", []]'}, "is not the dtype and shape"),
        ({"inputs": '["float32", [4.0]]'}, "is not the dtype and shape"),
        ({"inputs": '["float32", [true]]'}, "is not the dtype and shape"),
        ({"inputs": '["float32", [-4]]'}, "is not the dtype and shape"),
        ({"inputs": f'["float32", {[1] * 17}]'}, "is not the dtype and shape"),
        ({"inputs": '["float32", [8192, 8193]]'}, r"an example of the shape \[8192, 8193\] is too large"),
        ({"inputs": '[["float32"], []]'}, "is not the dtype and shape"),
        ({"inputs": "{}"}, "neither a tuple nor a dict of tensors"),
        ({"inputs": '{"set": [["a", "int64", []]]}'}, "neither a tuple nor a dict of tensors"),
        ({"inputs": '{"dict": []}'}, "neither a tuple nor a dict of tensors"),
        ({"inputs": '{"dict": [1]}'}, "1 is not the name, dtype and shape of an input"),
        ({"inputs": '{"dict": [["a"]]}'}, "is not the dtype and shape"),
        ({"inputs": '{"dict": [[3, "int64", []]]}'}, "is not the name, dtype and shape of an input"),
        ({"inputs": '{"dict": [["\\ud800", "int64", []]]}'}, "is not the name, dtype and shape of an input"),
        ({"inputs": '{"dict": [["a", "int64", []], ["a", "int64", []]]}'}, "is not the name, dtype and shape"),
        ({"targets": '{"tuple": [["0", "int64", []]]}'}, "is not the dtype and shape of a tensor"),
    ],
)
def test_a_node_with_impossible_data_is_refused(change: dict[str, Any], reason: str):
    with pytest.raises(Refused, match=reason):
        check_joined(JOINED._replace(**change), 4)


def test_inputs_of_every_kind_are_described_and_made_again():
    for inputs in (
        torch.zeros(3, 4),
        (torch.zeros(3, 4), torch.zeros(3, 2, 2, dtype=torch.float64)),
        {"ids": torch.zeros(3, 16, dtype=torch.int64), "mask": torch.ones(3, 16, dtype=torch.bool)},
    ):
        kind = json.loads(json.dumps(kind_of(inputs)))
        assert kind_of(example_of(kind)) == kind_of(inputs)
        assert type(example_of(kind)) is type(inputs)


def joined(**clients: int) -> dict[int, Joined]:
    """By node (`n7=2`: node 7 asks for the number 2)."""
    return {int(name[1:]): JOINED._replace(client=client) for name, client in clients.items()}


def test_nodes_have_the_numbers_that_they_ask_for_and_the_others_those_that_are_left():
    roster, refused = roster_of(joined(n9=-1, n8=0, n7=-1, n6=2), 4, RUN)
    assert roster is not None
    assert (roster.nodes, refused) == ([8, 7, 6, 9], {})


def test_too_few_nodes_make_no_roster():
    assert roster_of({}, 2, RUN) == (None, {})
    assert roster_of(joined(n1=0), 2, RUN) == (None, {})


def test_a_node_that_asks_for_a_number_that_another_has_is_refused():
    roster, refused = roster_of(joined(n1=0, n2=1, n3=1), 2, RUN)
    assert roster is not None
    assert (roster.nodes, refused) == ([1, 2], {3: "it asks for the number 1, which node 2 has"})


def test_a_node_too_many_is_refused():
    roster, refused = roster_of(joined(n1=-1, n2=-1, n3=-1), 2, RUN)
    assert roster is not None
    assert (roster.nodes, refused) == ([1, 2], {3: "the run has its 2 clients already"})


def test_a_node_whose_data_are_of_another_kind_than_those_of_most_is_refused():
    answers = joined(n1=0, n2=1, n3=2)
    answers[1] = answers[1]._replace(inputs='["float32", [5]]')
    roster, refused = roster_of(answers, 3, RUN)
    assert roster is None
    assert refused == {
        1: 'its data are ["float32", [5]] -> ["int64", []], those of most nodes ["float32", [4]] -> ["int64", []]'
    }


def test_the_server_knows_how_many_examples_each_client_has_and_their_values_take_no_memory():
    roster = ROSTER._replace(members=[Member(1, 10**8), Member(2, 3)], inputs=["float32", [3, 224, 224]])
    tracemalloc.start()
    try:
        federation = federation_of(roster, None)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert federation.sizes.tolist() == [10**8, 3]
    assert isinstance(federation.inputs, torch.Tensor)
    assert federation.inputs.untyped_storage().nbytes() == 4


def test_the_classes_are_those_of_all_nodes_and_of_the_test_set():
    test = (torch.zeros(2, 4), torch.tensor([0, 6]))
    assert federation_of(ROSTER, test).classes == 7
    assert federation_of(ROSTER._replace(classes=9), test).classes == 9
    assert isinstance(federation_of(ROSTER, None), Federation)
