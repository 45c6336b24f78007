"""Every law finds the mistake it is for, and names the method."""

from __future__ import annotations

import pytest
import torch

from driftless import Algorithm
from driftless.testing import LAWS, LawBroken
from testing.wrong import FOUND_BY, FollowsFirstClient, RemembersOutsideItsState


@pytest.mark.parametrize(
    ("algorithm", "law", "says"), FOUND_BY, ids=[f"{law}-{type(algorithm).__name__}" for algorithm, law, _ in FOUND_BY]
)
def test_the_law_finds_the_mistake_and_says_where(algorithm: Algorithm, law: str, says: str):
    with pytest.raises(LawBroken) as raised:
        LAWS[law](algorithm)
    assert set(raised.value.broken) == {law}
    assert says in str(raised.value)


def test_every_law_has_a_mistake_that_it_finds():
    assert {law for _, law, _ in FOUND_BY} == set(LAWS)


@pytest.mark.parametrize("algorithm", [FollowsFirstClient(), RemembersOutsideItsState()])
def test_what_clients_share_or_runs_forget_is_not_found_by_calling_a_method_again(algorithm: Algorithm):
    """So the laws about the order of clients and about resuming are needed."""
    for law in ("unchanged_arguments", "unchanged_algorithm", "repeatable_calls"):
        LAWS[law](algorithm)


def test_a_law_leaves_torchs_generator_as_it_was():
    before = torch.random.get_rng_state()
    for algorithm, law, _ in FOUND_BY:
        if law == "repeatable_calls":
            LAWS[law].look(algorithm)
    assert torch.equal(torch.random.get_rng_state(), before)
