"""A share of every client's examples for its own test. Held-out clients are tested in test_federation.py."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from driftless.data import load
from driftless.data.federation import Federation
from driftless.data.held_out import hold_out, keep_for_test
from driftless.errors import InputError


def federation(sizes: tuple[int, ...] = (1, 2, 3, 10, 25)) -> Federation:
    """Each example has a number of its own."""
    ends = np.cumsum(sizes)
    return Federation.from_clients(
        [(np.arange(end - n, end), np.full(n, i)) for i, (n, end) in enumerate(zip(sizes, ends, strict=True))]
    )


def test_every_client_gives_its_share_and_keeps_at_least_one_example():
    made = keep_for_test(federation(), 0.2, seed=0)
    assert made.client_test is not None
    assert made.client_test.sizes.tolist() == [0, 0, 1, 2, 5]
    assert made.sizes.tolist() == [1, 2, 2, 8, 20]
    almost_all = keep_for_test(federation(), 0.99, seed=0)
    assert almost_all.sizes.tolist() == [1] * 5


def test_each_example_is_trained_on_or_tested_and_stays_with_its_client_in_its_order():
    before, made = federation(), keep_for_test(federation(), 0.3, seed=5)
    assert made.client_test is not None
    for i in range(before.clients):
        train, test = made.client(i)[0].tolist(), made.client_test.client(i)[0].tolist()
        assert sorted(train + test) == before.client(i)[0].tolist()
        assert train == sorted(train)
        assert test == sorted(test)
        assert set(made.client_test.client(i)[1].tolist()) <= {i}
    assert made.classes == made.client_test.classes == before.classes


def test_the_seed_decides_and_held_out_clients_keep_their_split():
    first, again, other = (keep_for_test(federation(), 0.5, seed) for seed in (1, 1, 2))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    held = hold_out(first, 2, seed=0)
    assert held.validation is not None
    assert held.validation.client_test is not None
    sizes = held.client_test.sizes.sum() + held.validation.client_test.sizes.sum()  # pyright: ignore
    assert sizes == first.client_test.sizes.sum()  # pyright: ignore


def test_load_takes_the_share():
    whole, made = (load("digits", clients=10, client_test=share) for share in (0, 0.2))
    assert whole.client_test is None
    assert made.client_test is not None
    assert (made.sizes + made.client_test.sizes == whole.sizes).all()
    assert load("quadratics", clients=3, dimension=10, client_test=0.5).client_test is not None


def test_the_examples_of_a_share_are_evenly_drawn():
    """Of 4000 clients of 10, the first example is kept for the test by a fifth: standard deviation 25."""
    made = keep_for_test(federation((10,) * 4000), 0.2, seed=0)
    assert made.client_test is not None
    rows = made.client_test.inputs
    assert isinstance(rows, torch.Tensor)
    counts = np.bincount(rows.numpy() % 10, minlength=10)
    assert counts.sum() == 8000
    assert (abs(counts - 800) < 6 * 25.3).all()


def test_a_hundred_thousand_clients_are_split_without_a_loop():
    many = replace(federation((10,)), inputs=torch.zeros(1_000_000), targets=torch.zeros(1_000_000).long(),
                   offsets=np.arange(0, 1_000_001, 10))  # fmt: skip
    start = time.perf_counter()
    assert keep_for_test(many, 0.2, seed=0).sizes.sum() == 800_000
    assert time.perf_counter() - start < 10  # about 0.3 seconds on an idle machine


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, "a", True, np.nan])
def test_a_share_is_a_number_below_1(share: object):
    with pytest.raises(InputError, match=r"client_test, the share .* must be a number in \[0, 1\)"):
        keep_for_test(federation(), share, seed=0)  # pyright: ignore


def test_a_share_of_which_nothing_comes_and_a_second_one_are_refused():
    with pytest.raises(InputError, match=r"leaves no client an example for its test \(the largest client has 2\)"):
        keep_for_test(federation((2, 1)), 0.1, seed=0)
    with pytest.raises(InputError, match="already has test data of each client"):
        keep_for_test(keep_for_test(federation(), 0.5, 0), 0.5, 0)
