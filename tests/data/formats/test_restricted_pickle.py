from __future__ import annotations

import pickle

import numpy as np
import pytest

from driftless.data.formats import restricted_pickle
from driftless.errors import InputError


class Calls:
    """Its pickle calls a function."""

    def __init__(self, function, *arguments) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    "value",
    [
        Calls(eval, "1 + 1"),
        Calls(np.load, "file"),
        [Calls(getattr, "", "join")],
        np.array([1, None], dtype=object),
        np.zeros(3),
        InputError,
    ],
    ids=["eval", "numpy.load", "getattr", "objects", "floats", "class"],
)
def test_a_pickle_of_anything_but_plain_values_and_bytes_is_refused(value: object, protocol: int):
    with pytest.raises(InputError, match="a-file"):
        restricted_pickle.loads(pickle.dumps(value, protocol=protocol), "a-file")


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_plain_values_and_arrays_of_bytes_are_read(protocol: int):
    array = np.random.default_rng(0).integers(0, 256, (5, 7)).astype(np.uint8)
    value = {b"data": array, b"labels": [1, 2, 300, -1], "text": ("é", None, True, 1.5), b"bytes": b"\x00\xff"}
    read = restricted_pickle.loads(pickle.dumps(value, protocol=protocol), "a-file")
    assert read.pop(b"data").tolist() == array.tolist()
    del value[b"data"]
    assert read == value
