from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from driftless.random import key, key63, stream

names = st.tuples(
    st.integers(0, 10**6), st.sampled_from(["batches", "cohort", "dropout"]), st.integers(0, 999), st.integers(0, 999)
)


@given(one=names, other=names)
def test_keys_are_equal_only_for_equal_names(one, other):
    assert (key(*one) == key(*other)) == (one == other)
    assert (key63(*one) == key63(*other)) == (one == other)


def test_numbers_that_read_alike_one_after_the_other_are_told_apart():
    """Seed 1 in round 23 and seed 12 in round 3; round 1 of client 23 and round 12 of client 3."""
    alike = [(1, "batches", 23), (12, "batches", 3), (0, "batches", 1, 23), (0, "batches", 12, 3), (1, "batches", 2, 3)]
    assert len({key(*name) for name in alike}) == len(alike)
    assert key(0, "batches1", 2) != key(0, "batches", 12)


def test_purposes_have_streams_of_their_own():
    draws = {p: tuple(stream(0, p, 1, 2).integers(2**62, size=3)) for p in ("batches", "cohort", "dropout", "model")}
    assert len(set(draws.values())) == 4


def test_streams_do_not_depend_on_the_order_they_are_opened_or_read():
    one, other = stream(0, "batches", 1, 1), stream(0, "batches", 1, 2)
    mixed = [(one.random(), other.random()) for _ in range(5)]
    late, early = stream(0, "batches", 1, 2).random(5), stream(0, "batches", 1, 1).random(5)
    assert [pair[0] for pair in mixed] == early.tolist()
    assert [pair[1] for pair in mixed] == late.tolist()


def test_keys_are_the_same_on_every_machine():
    """The digest of "0/batches/1/2" as `b2sum -l 128` prints it, read from its last byte to its first."""
    digest = bytes.fromhex("1db82511181f5f6de177a63b931f29e6")
    assert key(0, "batches", 1, 2) == int.from_bytes(digest, "little")


@given(name=names)
def test_the_short_key_fits_a_signed_64_bit_integer(name):
    assert 0 <= key63(*name) < 2**63
    assert torch.tensor(key63(*name)).item() == key63(*name)


def test_streams_of_neighbouring_clients_rounds_and_seeds_are_not_correlated():
    opened = [
        stream(0, "a", 1, 1),
        stream(0, "a", 1, 2),
        stream(0, "a", 2, 1),
        stream(1, "a", 1, 1),
        stream(0, "b", 1, 1),
    ]
    numbers = np.stack([s.random(100_000) for s in opened])
    matrix = np.corrcoef(numbers) - np.eye(len(opened))
    assert np.abs(matrix).max() < 5 / math.sqrt(100_000)
