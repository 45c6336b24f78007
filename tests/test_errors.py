"""One wording for each kind of mistake."""

from __future__ import annotations

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


def test_none_passes_where_the_number_may_be_left_open():
    check_whole("threads", None, 1, optional=True)
    with pytest.raises(InputError, match=r"threads must be a whole number of at least 1 \(or None\), got 0"):
        check_whole("threads", 0, 1, optional=True)
