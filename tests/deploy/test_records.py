from __future__ import annotations

import io
import pickle
import tracemalloc
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord
from torch import Tensor

from driftless import Algorithm
from driftless.deploy.records import NUMPY, as_array, packed, short, unpacked
from driftless.deploy.refusal import Refused
from driftless.engine.tree import leaves, map_leaves, named_leaves
from laws.drive import drive
from laws.entries import ENTRIES, NAMES
from laws.trees import structure


class Pair(NamedTuple):
    delta: Tensor
    steps: Tensor


LIKE = Pair(torch.zeros(2, 3), torch.zeros(()))
SENT = Pair(torch.arange(6.0).view(2, 3), torch.tensor(4.0))


def trees_of(algorithm: Algorithm) -> list[Any]:
    """What is sent and kept during a few rounds: messages, uploads, client states."""
    found: list[Any] = []

    def call(method: str, *given: Any) -> Any:
        result = getattr(algorithm, method)(*given)
        if method in ("broadcast", "init_client"):
            found.append(result)
        elif method == "upload":
            found.extend(result)
        return result

    drive(algorithm, torch.float32, call)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_message_upload_and_state_comes_back_bit_by_bit(name: str):
    trees = trees_of(ENTRIES[name])
    assert len(trees) > 10
    for tree in trees:
        found = unpacked(packed(tree), map_leaves(torch.zeros_like, tree), "it")
        assert structure(found) == structure(tree)
        assert [leaf.numpy().tobytes() for leaf in leaves(found)] == [leaf.numpy().tobytes() for leaf in leaves(tree)]


def test_flower_reads_what_is_packed_and_what_flower_writes_is_read():
    record = packed(SENT)
    assert np.array_equal(record["delta"].numpy(), SENT.delta.numpy())
    flowers = ArrayRecord({name: Array(leaf.numpy()) for name, leaf in named_leaves(SENT)})
    assert torch.equal(unpacked(flowers, LIKE, "it").delta, SENT.delta)


def test_not_a_number_and_huge_numbers_are_carried_as_they_are():
    sent = Pair(torch.full((2, 3), 1e30), torch.tensor(torch.nan))
    found = unpacked(packed(sent), LIKE, "it")
    assert torch.equal(found.delta, sent.delta)
    assert torch.isnan(found.steps)


def test_what_was_received_can_be_written_to_and_is_a_copy():
    record = packed(SENT)
    unpacked(record, LIKE, "it").delta.fill_(9.0)
    assert torch.equal(unpacked(record, LIKE, "it").delta, SENT.delta)


def test_a_record_of_another_kind_is_refused():
    for record in (None, ConfigRecord({"delta": 1.0}), "delta"):
        with pytest.raises(Refused, match=r"^the upload is missing$"):
            unpacked(record, LIKE, "the upload")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["delta"], "the upload has no field steps"),
        (["delta", "steps", "weight"], "the upload has unknown field weight"),
        (["weight"], "the upload has unknown field weight and no fields delta, steps"),
        (["delta", "steps", *map(str, range(7))], "the upload has unknown fields 0, 1, 2, 3, 4 and 2 more"),
        (["delta", "steps\n\x1b[31m"], r"the upload has unknown field steps\?\?\[31m and no field steps"),
    ],
)
def test_other_names_are_refused_and_named(names: list[str], reason: str):
    record = ArrayRecord({name: as_array(SENT.steps) for name in names})
    with pytest.raises(Refused, match=f"^{reason}$"):
        unpacked(record, LIKE, "the upload")


def saved(values: np.ndarray, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values, **options)
    return file.getvalue()


VALUES = SENT.delta.numpy()
GOOD = as_array(SENT.delta)
FORMAT = "delta of the upload is not an array in NumPy's format with this shape and dtype"
LENGTH = len(GOOD.data)
TERABYTES = GOOD.data.replace(b"(2, 3), }" + b" " * 12, b"(2, 3000000000000), }")
WRONG = {
    "another dtype": (Array(VALUES.astype(np.float64)), "dtype float64 instead of float32"),
    "big-endian numbers": (Array(">f4", (2, 3), NUMPY, saved(VALUES.astype(">f4"))), "dtype >f4 instead of float32"),
    "big-endian numbers that claim not to be": (Array("float32", (2, 3), NUMPY, saved(VALUES.astype(">f4"))), FORMAT),
    "another shape": (Array(VALUES.T.copy()), r"shape \[3, 2\] instead of \[2, 3\]"),
    "a shape of terabytes": (Array("float32", (10**12, 3), NUMPY, GOOD.data), r"shape \[1000000000000, 3\] instead"),
    "a shape of huge integers": (
        Array("float32", (10**5000,), NUMPY, GOOD.data),
        "a value of type list that is",
    ),
    "negative sizes": (Array("float32", (-2, -3), NUMPY, GOOD.data), r"shape \[-2, -3\] instead"),
    "Fortran order": (Array("float32", (2, 3), NUMPY, saved(np.asfortranarray(VALUES))), FORMAT),
    "a header of terabytes": (Array("float32", (2, 3), NUMPY, TERABYTES), FORMAT),
    "objects": (Array("object", (2, 3), NUMPY, saved(VALUES.astype(object))), "dtype object instead of float32"),
    "objects that claim to be numbers": (Array("float32", (2, 3), NUMPY, saved(VALUES.astype(object))), FORMAT),
    "a pickle": (Array("float32", (2, 3), NUMPY, pickle.dumps(VALUES)), FORMAT),
    "another serialisation": (Array("float32", (2, 3), "pickle", GOOD.data), FORMAT),
    "version 2 of the format": (Array("float32", (2, 3), NUMPY, GOOD.data.replace(b"Y\x01", b"Y\x02")), FORMAT),
    "nothing": (Array("float32", (2, 3), NUMPY, b""), FORMAT),
    "cut off": (Array("float32", (2, 3), NUMPY, GOOD.data[:-1]), f"has {LENGTH - 1} bytes instead of {LENGTH}"),
    "too long": (Array("float32", (2, 3), NUMPY, GOOD.data + b"\0"), f"has {LENGTH + 1} bytes instead of {LENGTH}"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_array_that_is_not_as_expected_is_refused_and_costs_no_memory(what: str):
    array, reason = WRONG[what]
    assert array.data != GOOD.data or (array.dtype, array.shape, array.stype) != (GOOD.dtype, GOOD.shape, GOOD.stype)
    record = ArrayRecord({"delta": array, "steps": as_array(SENT.steps)})
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match=reason):
            unpacked(record, LIKE, "the upload")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_nothing_of_a_pickle_is_executed():
    class Harmful:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was executed",))

    content = saved(np.array([Harmful()], dtype=object))
    record = ArrayRecord({"delta": Array("object", (2, 3), NUMPY, content), "steps": as_array(SENT.steps)})
    with pytest.raises(Refused, match="dtype object"):
        unpacked(record, LIKE, "the upload")


def test_text_from_the_network_is_shown_in_one_short_line():
    assert short("a\nb\x00\udcff") == "a?b??"
    assert short("x" * 1000) == "x" * 57 + "..."
    assert short("x" * 60) == "x" * 60
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    assert short(nested) == "a value of type list that is too large to show"
    assert short(10**5000) == "a value of type int that is too large to show"
