from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftless import InputError, LocalTraining
from driftless.engine.batches import (
    FULL_GRADIENT_CHUNK,
    batches_per_epoch,
    check_steps,
    chunks,
    examples_of,
    plan,
    stack,
    steps_of,
)
from driftless.random import stream

sizes = st.integers(1, 40)
batch_sizes = st.integers(1, 50)
seeds = st.integers(0, 1000)


def rows(training: LocalTraining, examples: int, seed: int) -> list[list[int]]:
    """The examples of each minibatch, without padding."""
    planned = plan(training, examples, stream(seed, "batches"))
    index, count = planned.index, planned.count
    assert len(index) == len(count)
    assert (count >= 1).all()
    assert (count <= index.shape[1]).all()
    return [index[k, : count[k]].tolist() for k in range(len(index))]


def epochs_of(batches: list[list[int]], per_epoch: int) -> list[list[int]]:
    starts = range(0, len(batches), per_epoch)
    return [[row for batch in batches[start : start + per_epoch] for row in batch] for start in starts]


@given(n=sizes, size=batch_sizes, epochs=st.integers(1, 4), seed=seeds)
def test_short_visits_each_example_exactly_once_an_epoch(n: int, size: int, epochs: int, seed: int):
    training = LocalTraining(epochs=epochs, batch_size=size)
    batches = rows(training, n, seed)
    assert [len(batch) for batch in batches] == ([size] * (n // size) + [n % size] * (n % size > 0)) * epochs
    for epoch in epochs_of(batches, -(-n // size)):
        assert sorted(epoch) == list(range(n))


@given(n=sizes, size=batch_sizes, epochs=st.integers(1, 4), seed=seeds)
def test_drop_leaves_out_the_incomplete_batch_and_repeats_nothing(n: int, size: int, epochs: int, seed: int):
    training = LocalTraining(epochs=epochs, batch_size=size, last_batch="drop")
    if n < size:
        with pytest.raises(InputError):
            check_steps(training, np.array([n]))
        return
    batches = rows(training, n, seed)
    assert [len(batch) for batch in batches] == [size] * (n // size) * epochs
    for epoch in epochs_of(batches, n // size):
        assert len(set(epoch)) == len(epoch)
        assert set(epoch) <= set(range(n))


@given(n=sizes, size=batch_sizes, epochs=st.integers(1, 4), seed=seeds)
def test_bootstrap_fills_every_batch_with_the_clients_own_examples(n: int, size: int, epochs: int, seed: int):
    training = LocalTraining(epochs=epochs, batch_size=size, last_batch="bootstrap")
    batches = rows(training, n, seed)
    assert [len(batch) for batch in batches] == [size] * (-(-n // size)) * epochs
    for epoch in epochs_of(batches, -(-n // size)):
        assert sorted(epoch[:n]) == list(range(n))
        assert set(epoch) == set(range(n))


def test_bootstrap_draws_the_filling_from_all_examples():
    training = LocalTraining(epochs=400, batch_size=10, last_batch="bootstrap")
    filled = Counter(row for batch in rows(training, 5, 0) for row in batch[5:])
    # 2000 draws from 5: the standard deviation of a count is sqrt(2000 * 0.2 * 0.8) = 18
    assert all(abs(filled[i] - 400) < 5 * 18 for i in range(5))


@given(
    n=sizes, size=st.none() | batch_sizes, steps=st.integers(1, 30), seed=seeds,
    last_batch=st.sampled_from(["short", "bootstrap", "drop"]),
)  # fmt: skip
def test_steps_gives_exactly_that_many_batches(n: int, size: int | None, steps: int, seed: int, last_batch: str):
    if last_batch == "drop" and size is not None and n < size:
        return
    batches = rows(LocalTraining(steps=steps, batch_size=size, last_batch=last_batch), n, seed)
    assert len(batches) == steps
    assert all(0 <= row < n for batch in batches for row in batch)


@given(
    n=st.lists(sizes, min_size=1, max_size=5), size=st.none() | batch_sizes, seed=seeds,
    amount=st.fixed_dictionaries({"epochs": st.integers(1, 3)}) | st.fixed_dictionaries({"steps": st.integers(1, 9)}),
    last_batch=st.sampled_from(["short", "bootstrap", "drop"]),
)  # fmt: skip
def test_the_announced_numbers_of_steps_and_examples_are_the_planned_ones(n, size, seed, amount, last_batch):
    training = LocalTraining(batch_size=size, last_batch=last_batch, **amount)
    examples = np.array(n)
    if (batches_per_epoch(training, examples) == 0).any():
        return
    planned = [rows(training, i, seed) for i in n]
    assert steps_of(training, examples).tolist() == [len(batches) for batches in planned]
    assert examples_of(training, examples).tolist() == [sum(map(len, batches)) for batches in planned]


@given(n=sizes, steps=st.integers(1, 5), seed=seeds)
def test_without_a_batch_size_every_step_sees_all_examples(n: int, steps: int, seed: int):
    assert rows(LocalTraining(steps=steps, batch_size=None), n, seed) == [list(range(n))] * steps


@given(n=st.integers(1, 10), size=st.integers(11, 50), seed=seeds)
def test_a_batch_larger_than_the_client_is_all_its_examples(n: int, size: int, seed: int):
    planned = plan(LocalTraining(epochs=3, batch_size=size), n, stream(seed, "batches"))
    assert planned.index.shape == (3, n)
    assert planned.count.tolist() == [n] * 3
    assert [sorted(row) for row in planned.index.tolist()] == [list(range(n))] * 3


def test_every_epoch_has_an_order_of_its_own_and_all_orders_occur():
    orders = Counter(tuple(e) for e in epochs_of(rows(LocalTraining(epochs=6000, batch_size=1), 3, 0), 3))
    # 6000 draws from 6 orders: the standard deviation of a count is sqrt(6000 * 1/6 * 5/6) = 29
    assert len(orders) == 6
    assert all(abs(count - 1000) < 5 * 29 for count in orders.values())


def test_the_batches_depend_on_the_stream_and_on_nothing_else():
    training = LocalTraining(epochs=2, batch_size=4)
    assert rows(training, 20, 1) == rows(training, 20, 1)
    assert rows(training, 20, 1) != rows(training, 20, 2)


@given(n=st.integers(1, 3 * FULL_GRADIENT_CHUNK))
@settings(max_examples=50)
def test_the_chunks_of_a_full_gradient_are_all_examples_in_order(n: int):
    index, count = chunks(n).index, chunks(n).count
    assert index.shape[1] <= FULL_GRADIENT_CHUNK
    assert len(index) == -(-n // FULL_GRADIENT_CHUNK)
    seen = np.concatenate([index[k, : count[k]] for k in range(len(index))])
    assert np.array_equal(seen, np.arange(n))


@given(
    n=st.lists(sizes, min_size=1, max_size=5), size=batch_sizes, epochs=st.integers(1, 3), seed=seeds,
)  # fmt: skip
def test_a_block_holds_every_clients_plan_and_pads_with_its_own_examples(n, size, epochs, seed):
    training = LocalTraining(epochs=epochs, batch_size=size)
    plans = [plan(training, examples, stream(seed, "batches", client=i)) for i, examples in enumerate(n)]
    first = np.concatenate([[0], np.cumsum(n)])[:-1] + 100
    stacked = stack(plans, first)
    index, count = stacked.index, stacked.count
    assert index.shape[:2] == count.shape == (len(n), max(len(p.index) for p in plans))
    for i, p in enumerate(plans):
        steps, width = p.index.shape
        assert np.array_equal(index[i, :steps, :width], p.index + first[i])
        assert np.array_equal(count[i], [*p.count, *[0] * (count.shape[1] - steps)])
        assert ((index[i] >= first[i]) & (index[i] < first[i] + n[i])).all()


def test_dropping_that_leaves_a_client_idle_names_it_and_says_what_to_do():
    with pytest.raises(InputError) as error:
        check_steps(LocalTraining(batch_size=5, last_batch="drop"), np.array([5, 4, 9, 3]))
    for part in ("client 1 has 4 examples", "batch_size=5", "1 others", "'short'", "'bootstrap'", "smaller batch size"):
        assert part in str(error.value)
