"""One wording for each kind of mistake."""

from __future__ import annotations

import numpy as np
import pytest

from driftless.errors import InputError, check_whole


@pytest.mark.parametrize("value", [2, 3, 10**20])
def test_a_whole_number_that_is_large_enough_passes(value: int):
    check_whole("rounds", value, 2)


@pytest.mark.parametrize("value", [1, -3, 2.0, True, "3", None])
def test_anything_else_is_an_error_that_says_what_is_wanted(value: object):
    with pytest.raises(InputError) as caught:
        check_whole("rounds", value, 2)
    assert str(caught.value) == f"rounds must be a whole number of at least 2, got {value!r}."


@pytest.mark.parametrize(("other", "named"), [(None, "None"), ("auto", '"auto"')])
def test_another_value_passes_where_it_is_allowed(other: object, named: str):
    assert check_whole("threads", other, 1, other=other) == other
    with pytest.raises(InputError, match=rf"threads must be a whole number of at least 1 \(or {named}\), got 0"):
        check_whole("threads", 0, 1, other=other)


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert type(check_whole("threads", np.int32(3), 1)) is int
