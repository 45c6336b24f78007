"""One wording for each kind of mistake."""

from __future__ import annotations

import math

import numpy as np
import pytest

from driftless.errors import InputError, check_range, check_whole


@pytest.mark.parametrize("value", [2, 3, 10**9])
def test_a_whole_number_that_is_large_enough_passes(value: int):
    check_whole("rounds", value, 2)


@pytest.mark.parametrize("value", [1, -3, 2.0, True, "3", None])
def test_anything_else_is_an_error_that_says_what_is_wanted(value: object):
    with pytest.raises(InputError) as caught:
        check_whole("rounds", value, 2)
    assert str(caught.value) == f"rounds must be a whole number of at least 2, got {value!r}."


@pytest.mark.parametrize("value", [10**9 + 1, 10**30, 10**5000], ids=["10**9 + 1", "10**30", "10**5000"])
def test_a_number_that_is_too_large_is_an_error_with_the_largest_allowed(value: int):
    with pytest.raises(InputError, match=r"rounds must be a whole number of at most 1000000000, got .{1,70}\.$"):
        check_whole("rounds", value, 2)


@pytest.mark.parametrize("value", [2**63, -(10**30), 10**400], ids=["2**63", "-10**30", "10**400"])
def test_an_integer_that_torch_cannot_take_is_no_number_of_an_interval(value: int):
    with pytest.raises(InputError, match="an integer beyond 64 bits; write it as a float"):
        check_range("lr", value, -math.inf, math.inf)


@pytest.mark.parametrize(("other", "named"), [(None, "None"), ("auto", '"auto"')])
def test_another_value_passes_where_it_is_allowed(other: object, named: str):
    assert check_whole("threads", other, 1, other=other) == other
    with pytest.raises(InputError, match=rf"threads must be a whole number of at least 1 \(or {named}\), got 0"):
        check_whole("threads", 0, 1, other=other)


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert type(check_whole("threads", np.int32(3), 1)) is int
