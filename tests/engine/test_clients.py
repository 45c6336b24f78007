from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from driftless.engine.clients import ClientStore

NewStore = Callable[[], ClientStore]
KINDS: dict[str, NewStore] = {
    "memory": ClientStore,
    "disk": lambda: ClientStore(Path(tempfile.gettempdir())),
}
both = pytest.mark.parametrize("new_store", KINDS.values(), ids=KINDS)


class State(NamedTuple):
    vector: Tensor
    number: Tensor
    pair: tuple[Tensor, Tensor]
    nothing: Tensor


def state(value: float) -> State:
    """A state whose every entry is made from one number."""
    return State(
        torch.full((3,), value, dtype=torch.float64),
        torch.tensor(value + 0.5, dtype=torch.float64),
        (torch.full((2, 2), -value, dtype=torch.float64), torch.tensor([value], dtype=torch.float64)),
        torch.zeros(0, dtype=torch.float64),
    )


def stacked(values: list[float]) -> State:
    """The states of several clients with a leading dimension, built without the engine's help."""
    states = [state(value) for value in values]
    return State(
        torch.stack([s.vector for s in states]),
        torch.stack([s.number for s in states]),
        (torch.stack([s.pair[0] for s in states]), torch.stack([s.pair[1] for s in states])),
        torch.zeros(len(values), 0, dtype=torch.float64),
    )


def assert_equal(one: State, other: State) -> None:
    assert type(one) is type(other)
    assert torch.equal(one.vector, other.vector)
    assert torch.equal(one.number, other.number)
    assert torch.equal(one.pair[0], other.pair[0])
    assert torch.equal(one.pair[1], other.pair[1])
    assert one.nothing.shape == other.nothing.shape


ids = st.lists(st.integers(0, 30), min_size=1, max_size=8, unique=True)
operations = st.lists(
    st.tuples(st.sampled_from(["put", "get", "remove"]), ids) | st.tuples(st.just("copy"), st.just([])),
    max_size=20,
)


@both
@given(operations=operations)
def test_the_store_is_a_dictionary_of_states(new_store: NewStore, operations):
    """Copies are kept and checked at the end: nothing that happened after may have changed them."""
    store, model, copies, value = new_store(), dict[int, float](), [], 0.0
    for operation, clients in operations:
        if operation == "put":
            values = [value + i for i in range(len(clients))]
            value += len(clients)
            store.put(clients, stacked(values))
            model.update(zip(clients, values, strict=True))
        elif operation == "get":
            assert_equal(store.get(clients, state(-1.0)), stacked([model.get(c, -1.0) for c in clients]))
        elif operation == "remove":
            store.remove(clients)
            model = {client: value for client, value in model.items() if client not in clients}
        else:
            copies.append((store.copy(), dict(model)))
        assert len(store) == len(model)
        assert store.clients == sorted(model)
        assert store.touched == set(model)
        assert all((client in store) == (client in model) for client in range(31))
    for kept, then in [*copies, (store, model)]:
        assert kept.clients == sorted(then)
        assert_equal(kept.get(list(range(31)), state(-1.0)), stacked([then.get(c, -1.0) for c in range(31)]))


@both
def test_what_get_returns_is_a_copy(new_store: NewStore):
    store, initial = new_store(), state(-1.0)
    store.put([4, 2], stacked([1.0, 2.0]))
    for clients in ([4, 2], [4, 7], [8, 9]):
        taken = store.get(clients, initial)
        taken.vector.fill_(99.0)
        taken.number.fill_(99.0)
        taken.pair[0].fill_(99.0)
    assert_equal(store.get([4, 2, 7], initial), stacked([1.0, 2.0, -1.0]))
    assert_equal(initial, state(-1.0))


@both
def test_what_put_was_given_may_be_changed_afterwards(new_store: NewStore):
    store, given_states = new_store(), stacked([1.0, 2.0])
    store.put([0, 1], given_states)
    given_states.vector.fill_(99.0)
    given_states.number.fill_(99.0)
    assert_equal(store.get([0, 1], state(-1.0)), stacked([1.0, 2.0]))


@both
def test_asking_for_a_client_does_not_make_a_row(new_store: NewStore):
    store = new_store()
    store.get([3], state(0.0))
    assert len(store) == 0
    assert 3 not in store


@both
def test_stateless_clients_take_no_rows(new_store: NewStore):
    store = new_store()
    store.put([1, 2], ())
    assert len(store) == 0
    assert store.get([1, 2], ()) == ()


@both
def test_ids_need_not_be_dense(new_store: NewStore):
    store = new_store()
    store.put([10**6, 5], stacked([1.0, 2.0]))
    assert store.clients == [5, 10**6]
    assert_equal(store.get([5, 10**6], state(0.0)), stacked([2.0, 1.0]))


@both
def test_rows_keep_the_dtype_of_the_state(new_store: NewStore):
    for dtype in (torch.float32, torch.float64):
        store = new_store()
        store.put([0], (torch.ones(1, 2, dtype=dtype),))
        store.put([1, 2], (torch.ones(2, 2, dtype=dtype),))
        assert store.get([0, 2], (torch.zeros(2, dtype=dtype),))[0].dtype == dtype


@both
def test_the_rows_of_removed_clients_are_used_again_and_the_others_keep_theirs(new_store: NewStore):
    store = new_store()
    store.put([1, 2, 3, 4], stacked([1.0, 2.0, 3.0, 4.0]))
    tables = [table.values.data_ptr() for table in store._tables]
    store.remove([2, 4])
    assert store.clients == [1, 3]
    assert_equal(store.get([1, 2, 3, 4], state(-1.0)), stacked([1.0, -1.0, 3.0, -1.0]))
    store.put([7, 2], stacked([7.0, 8.0]))
    assert store.clients == [1, 2, 3, 7]
    assert_equal(store.get([1, 2, 3, 7], state(-1.0)), stacked([1.0, 8.0, 3.0, 7.0]))
    assert [table.values.data_ptr() for table in store._tables] == tables, "there was room"
    store.put([9], stacked([9.0]))
    assert_equal(store.get([9, 1, 2, 3, 7], state(-1.0)), stacked([9.0, 1.0, 8.0, 3.0, 7.0]))


@both
def test_a_client_that_has_no_row_can_be_removed(new_store: NewStore):
    store = new_store()
    store.remove([5])
    store.put([1], stacked([1.0]))
    store.remove([5, 1, 1])
    assert len(store) == 0
    assert_equal(store.get([1, 5], state(-1.0)), stacked([-1.0, -1.0]))


@both
def test_a_removed_client_is_not_saved_again(new_store: NewStore):
    store = new_store()
    store.put([1, 2], stacked([1.0, 2.0]))
    store.remove([2])
    assert store.touched == {1}


@both
def test_a_copy_has_its_own_free_rows(new_store: NewStore):
    store = new_store()
    store.put([1, 2], stacked([1.0, 2.0]))
    store.remove([2])
    twin = store.copy()
    twin.put([3], stacked([3.0]))
    store.put([4], stacked([4.0]))
    assert_equal(twin.get([1, 3, 4], state(-1.0)), stacked([1.0, 3.0, -1.0]))
    assert_equal(store.get([1, 3, 4], state(-1.0)), stacked([1.0, -1.0, 4.0]))
