"""The contract of algorithm.py, for every algorithm: pure methods, frozen hyper-parameters, states of one structure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from driftless import ALGORITHMS, AdaptiveClipping, Algorithm
from driftless.testing import LAWS
from driftless.testing.calls import RETURNS, Call, calls
from driftless.testing.method_laws import METHOD_LAWS
from laws.entries import ENTRIES, NAMES

every_algorithm = pytest.mark.parametrize("name", NAMES)


def test_every_algorithm_of_the_library_is_under_the_laws():
    assert set(ALGORITHMS) <= set(NAMES)
    assert {type(a) for a in ENTRIES.values()} == {*ALGORITHMS.values(), AdaptiveClipping}


@pytest.mark.parametrize("law", [find.__name__ for find in METHOD_LAWS])
@every_algorithm
def test_the_methods_of_an_algorithm_obey_the_law(name: str, law: str):
    LAWS[law](ENTRIES[name])


@every_algorithm
def test_the_laws_see_every_method_and_nine_uploads(name: str):
    """Otherwise they would hold for what they never called."""
    seen = [call.method for call in calls(ENTRIES[name])]
    assert set(seen) == set(RETURNS)
    assert seen.count("upload") == 9


@every_algorithm
def test_the_message_carries_x_and_the_upload_carries_the_clients_progress_to_the_bit(name: str):
    algorithm = ENTRIES[name]
    for call in calls(algorithm):
        if call.method == "broadcast":
            assert torch.equal(call.result.x, call.arguments[0].x)
        elif call.method == "upload":
            y, _, msg, _, _ = call.arguments
            moved = y - msg.x
            if isinstance(algorithm, AdaptiveClipping):
                length = min(1.0, float(msg.rho / moved.norm()))
                torch.testing.assert_close(call.result[0].delta, length * moved, rtol=1e-14, atol=1e-14)
            else:
                assert torch.equal(call.result[0].delta, moved)


def uploads(algorithm: Algorithm) -> Iterator[Call]:
    return (call for call in calls(algorithm) if call.method == "upload")


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(ENTRIES[name], AdaptiveClipping)])
def test_the_clipped_entries_clip_some_uploads_and_leave_others(name: str):
    """Otherwise the laws would see only one of the two branches."""
    assert {float(call.result[0].below) for call in uploads(ENTRIES[name])} == {0.0, 1.0}


@every_algorithm
def test_an_algorithm_states_its_paper(name: str):
    assert len(ENTRIES[name].citation) > 10
