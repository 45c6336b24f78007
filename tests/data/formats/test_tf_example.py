from __future__ import annotations

import numpy as np
import pytest

from data import write_files as write
from driftless.data.formats import tf_example


@pytest.mark.parametrize("is_packed", [True, False])
def test_a_record_is_read_whether_its_numbers_are_packed_or_not(is_packed: bool):
    floats, integers = np.array([0.5, -1.25, 3e9], dtype=np.float32), np.array([0, 300, -1, 2**62, -(2**63)])
    record = write.example_record({"f": floats, "i": integers, "b": b"\x00\xff"}, packed=is_packed)
    features = tf_example.parse(record)
    np.testing.assert_array_equal(features["f"], floats)
    np.testing.assert_array_equal(features["i"], integers)
    assert features["b"] == [b"\x00\xff"]


def test_unknown_fields_of_a_record_are_skipped_and_a_cut_record_is_refused():
    record = write.example_record({"y": 3})
    strange = b"\x38\x05" + b"\x41" + bytes(8) + b"\x45" + bytes(4) + write.field(9, b"later") + record
    assert [int(v) for v in tf_example.parse(strange)["y"]] == [3]
    for end in range(1, len(record)):
        with pytest.raises(ValueError, match=r"cut off|a number in place"):
            tf_example.parse(record[:end])
