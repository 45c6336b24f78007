from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from driftless.data.federation import Federation
from driftless.data.held_out import hold_out
from driftless.errors import InputError


def client(n: int, label: int = 0, width: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((n, width), float(n)), torch.full((n,), label)


def small(**options) -> Federation:
    return Federation.from_clients([client(2, 0), client(3, 1), client(1, 2)], **options)


def many(clients: int = 10) -> Federation:
    """Client i has i + 1 examples, all with the input i and the label i."""
    pairs = [(np.full((i + 1, 1), i, dtype=np.float32), np.full(i + 1, i)) for i in range(clients)]
    tests = [pair if i % 2 else None for i, pair in enumerate(pairs)]
    names = [f"user {i}" for i in range(clients)]
    return Federation.from_clients(pairs, test=pairs[-1], client_test=tests, client_names=names)


def test_each_client_has_its_own_rows_as_views():
    federation = small(test=client(4, 1))
    assert federation.clients == 3
    assert federation.sizes.tolist() == [2, 3, 1]
    assert federation.offsets.tolist() == [0, 2, 5, 6]
    assert federation.input_shape == (3,)
    assert federation.classes == 3
    inputs, targets = federation.client(1)
    assert (inputs == 3).all()
    assert targets.tolist() == [1, 1, 1]
    assert inputs.untyped_storage().data_ptr() == federation.inputs.untyped_storage().data_ptr()


def test_the_number_of_classes_covers_the_test_set_and_may_be_given():
    assert small(test=client(1, 6)).classes == 7
    assert small(client_test=[None, client(1, 4), None]).classes == 5
    assert small(classes=10).classes == 10


@pytest.mark.parametrize(
    ("inputs", "targets", "input_dtype", "target_dtype"),
    [
        ([[1, 2]], [1], torch.int64, torch.int64),
        ([[1.5, 2]], [1.5], torch.float64, torch.float64),
        (np.ones((1, 2), np.float32), np.ones(1, np.uint8), torch.float32, torch.int64),
        (np.ones((1, 2), np.uint8), np.ones(1, np.bool_), torch.uint8, torch.int64),
        (np.ones((1, 2), np.uint16), np.ones(1, np.float16), torch.int64, torch.float32),
        (np.ones((1, 2), np.bool_), np.ones(1, np.longdouble), torch.float32, torch.float64),
        (np.ones((1, 2), ">f4"), np.ones(1, ">i4"), torch.float32, torch.int64),
        (np.ones((3, 2))[::-2], np.ones(3)[::-2], torch.float64, torch.float64),
        (torch.ones(1, 2, dtype=torch.float16), torch.ones(1, dtype=torch.int32), torch.float16, torch.int64),
        (torch.ones(1, 2, dtype=torch.int32), torch.ones(1, requires_grad=True), torch.int32, torch.float32),
    ],
)
def test_inputs_keep_their_kind_and_integer_targets_are_labels(inputs, targets, input_dtype, target_dtype):
    federation = Federation.from_clients([(inputs, targets)])
    assert federation.inputs.dtype == input_dtype
    assert federation.targets.dtype == target_dtype
    assert (federation.classes is None) == target_dtype.is_floating_point
    assert not federation.targets.requires_grad


def test_read_only_arrays_are_accepted_and_not_written_to():
    inputs = np.ones((2, 2))
    inputs.flags.writeable = False
    assert Federation.from_clients([(inputs, [0, 1])]).inputs.shape == (2, 2)


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        ([], "at least one client, got none"),
        ([client(2), client(0)], "client 1 has no examples"),
        ([client(2), (torch.ones(3, 3), torch.zeros(2))], "client 1 has 3 inputs but 2 targets"),
        (
            [client(2), client(2, width=4)],
            r"inputs of client 1 have the shape \[4\] per example, those of client 0 \[3\]",
        ),
        ([client(2), (torch.ones(2, 3), torch.ones(2))], "targets of client 1 are floats, those of client 0 integers"),
        ([client(2), (torch.ones(2, 3), torch.tensor([0, -1]))], r"client 1 has 1 labels outside 0\.\.0"),
        ([client(2), 5], "client 1 is not a pair"),
        ([client(2), (["a", "b"], [0, 1])], "the inputs of client 1 have the type <U1; give numbers"),
        ([client(2), ([[1.0], [1.0, 2.0]], [0, 1])], "the inputs of client 1 do not form an array"),
        ([(torch.ones(2, 1, dtype=torch.complex64), [0, 1])], "complex"),
        ([(3.0, [0])], "a single number"),
    ],
)
def test_wrong_clients_are_named(clients, message):
    with pytest.raises(InputError, match=message):
        Federation.from_clients(clients)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_values_are_counted_and_their_client_is_named(value):
    bad = torch.ones(3, 3)
    bad[0, 1] = bad[2, 2] = value
    with pytest.raises(InputError, match=r"client 1 has 2 non-finite values .* in its inputs, as have 1 other clients"):
        Federation.from_clients([client(2), (bad, torch.zeros(3).long()), (bad, torch.zeros(3).long())])
    with pytest.raises(InputError, match=r"client 1 has 2 non-finite values .* in its targets;"):
        Federation.from_clients([(torch.ones(2, 1), torch.ones(2, 3)), (torch.ones(3, 1), bad)])
    with pytest.raises(InputError, match=r"the test set has 2 non-finite values"):
        Federation.from_clients([client(2)], test=(bad, torch.zeros(3).long()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": client(2, width=4)}, r"inputs of the test set have the shape \[4\]"),
        ({"test": (torch.ones(2, 3), torch.ones(2))}, "targets of the test set are floats"),
        ({"test": (torch.ones(2, 3), torch.ones(3).long())}, "the test set has 2 inputs but 3 targets"),
        ({"test": client(0)}, "the test set has no examples"),
        ({"test": client(2, 5), "classes": 4}, r"the test set has 2 labels outside 0\.\.3"),
        ({"classes": 2}, r"client 2 has 1 labels outside 0\.\.1 \(the labels go from 0 to 2\)"),
        ({"classes": 0}, "classes must be a whole number of at least 1"),
        ({"client_test": [None, None]}, "leave it out"),
        ({"client_test": [client(1), None]}, "client_test has 2 clients, the federation 3"),
        ({"client_test": [client(1, width=2), None, None]}, "inputs of client_test"),
        ({"client_names": ["a"]}, "client_names has 1 clients, the federation 3"),
        ({"validation": 3}, "holding out 3 of 3 clients leaves none"),
        ({"validation": True}, "validation must be a number of clients"),
        ({"validation": -1}, "validation must be a number of clients"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        small(**options)


def test_classes_and_float_targets_exclude_each_other():
    with pytest.raises(InputError, match="classes=3 was given with float targets"):
        Federation.from_clients([([[1.0]], [1.0])], classes=3)


@settings(max_examples=30)
@given(owners=st.lists(st.integers(0, 4), min_size=5, max_size=40), shift=st.integers(0, 4))
def test_an_assignment_gives_each_client_its_examples_in_their_order(owners, shift):
    owners = np.array([*range(5), *((i + shift) % 5 for i in owners)])
    rows = np.arange(len(owners))
    federation = Federation.from_assignment(rows[:, None], rows * 0.5, owners, 5)
    for i in range(5):
        inputs, targets = federation.client(i)
        assert inputs[:, 0].tolist() == rows[owners == i].tolist()
        assert targets.tolist() == (rows[owners == i] * 0.5).tolist()


def test_sorted_data_are_not_copied():
    inputs = torch.ones(4, 2)
    federation = Federation.from_assignment(inputs, [0, 0, 1, 1], [0, 0, 1, 1], 2)
    assert federation.inputs.data_ptr() == inputs.data_ptr()


@pytest.mark.parametrize(
    ("assignment", "clients", "message"),
    [
        ([0, 1, 1], 3, r"client 2 has no examples \(1 of 3 clients are empty\)"),
        ([0, 1, 2], 2, r"assignment goes from 0 to 2, but the 2 clients are 0\.\.1"),
        ([0, 1], 2, "assignment has 2 entries for 3 examples"),
        ([0.0, 1.0, 1.0], 2, "one-dimensional array of integers, got float64"),
        ([0, 1, 1], 0, "clients must be a whole number of at least 1"),
    ],
)
def test_a_wrong_assignment_is_an_error(assignment, clients, message):
    with pytest.raises(InputError, match=message):
        Federation.from_assignment(np.ones((3, 1)), [0, 1, 1], assignment, clients)


def test_a_million_examples_over_a_hundred_thousand_clients_are_sorted_without_a_loop_over_clients():
    owners = np.random.default_rng(0).permutation(1_000_000) % 100_000
    inputs, targets = torch.zeros(1_000_000, 10), torch.from_numpy(owners % 10)
    start = time.perf_counter()
    federation = Federation.from_assignment(inputs, targets, owners, 100_000)
    assert time.perf_counter() - start < 10  # about half a second on an idle machine
    assert (federation.sizes == 10).all()
    assert (federation.targets.numpy() == np.repeat(np.arange(100_000) % 10, 10)).all()


@pytest.mark.parametrize("offsets", [[0, 2], [1, 6], [0, 4, 2, 6], [0]])
def test_offsets_that_do_not_cover_the_rows_are_an_error(offsets):
    with pytest.raises(InputError, match="offsets must rise from 0 to the 6 examples"):
        replace(small(), offsets=np.array(offsets))


def test_label_counts_are_a_table_of_clients_and_classes():
    federation = Federation.from_clients([([[0.0]] * 3, [0, 2, 2]), ([[0.0]], [1])], classes=4)
    assert federation.label_counts().tolist() == [[1, 0, 2, 0], [0, 1, 0, 0]]
    assert federation.label_counts().dtype == np.int64
    sequences = Federation.from_clients([([[0.0]], [[0, 1, 1]]), ([[0.0]], [[1, 1, 1]])])
    assert sequences.label_counts().tolist() == [[1, 2], [0, 3]]
    with pytest.raises(InputError, match="regression"):
        Federation.from_clients([([[0.0]], [1.0])]).label_counts()


def test_label_skew_is_the_mean_total_variation_distance():
    federation = many()
    counts = federation.label_counts()
    own, overall = counts / counts.sum(1, keepdims=True), counts.sum(0) / counts.sum()
    assert federation.label_skew() == pytest.approx(0.5 * np.abs(own - overall).sum(1).mean())
    assert Federation.from_clients([client(2), client(3)]).label_skew() == 0


def test_to_converts_floats_everywhere_and_leaves_integers():
    federation = hold_out(many(), 3, seed=0).to(torch.float64)
    assert federation.validation is not None
    assert federation.client_test is not None
    assert federation.test is not None
    for part in (federation, federation.validation, federation.client_test):
        assert part.inputs.dtype == torch.float64
        assert part.targets.dtype == torch.int64
    assert federation.test[0].dtype == torch.float64
    tokens = Federation.from_clients([([[1, 2]], [0.5])]).to(torch.float32)
    assert tokens.inputs.dtype == torch.int64
    assert tokens.targets.dtype == torch.float32
    with pytest.raises(InputError, match="dtype must be floating"):
        federation.to(torch.int64)


@pytest.mark.parametrize(("clients", "number"), [(3, 3), (0.25, 3), (0.01, 1)])
def test_held_out_clients_are_moved_with_everything_they_own(clients, number):
    whole = many()
    federation = hold_out(whole, clients, seed=1)
    held = federation.validation
    assert held is not None
    assert held.clients == number
    assert federation.clients == 10 - number
    assert federation.test is not None
    assert held.test is None
    assert held.classes == federation.classes == 10
    for part in (federation, held):
        assert part.client_names is not None
        assert part.client_test is not None
        for i, name in enumerate(part.client_names):
            original = int(name.removeprefix("user "))
            assert part.client(i)[1].tolist() == [original] * (original + 1)
            assert part.client_test.client(i)[1].tolist() == [original] * (original + 1) * (original % 2)
    names = [*(federation.client_names or ()), *(held.client_names or ())]
    assert sorted(names) == sorted(whole.client_names or ())


def test_holding_out_depends_on_the_seed_and_happens_once():
    whole = many()
    assert hold_out(whole, 0, seed=0) is whole
    chosen = [hold_out(whole, 3, seed).validation.client_names for seed in (0, 0, 1)]  # type: ignore[union-attr]
    assert chosen[0] == chosen[1] != chosen[2]
    with pytest.raises(InputError, match="already holds out 3 validation clients"):
        hold_out(hold_out(whole, 3, seed=0), 1, seed=0)


def test_a_client_or_a_selection_that_does_not_exist_is_an_error():
    with pytest.raises(InputError, match=r"there is no client 3; the 3 clients are 0\.\.2"):
        small().client(3)
    with pytest.raises(InputError, match="client 3 was selected"):
        small().select([0, 3])
    with pytest.raises(InputError, match="no client was selected"):
        small().select([])


def test_a_federation_describes_itself():
    federation = hold_out(many(), 2, seed=0)
    text = federation.describe()
    for part in ("8 clients", "10 classes", "examples per client: min", "label skew: 0.", "test: 10 examples"):
        assert part in text
    assert "validation: 2 held-out clients" in text
    assert "test data of the clients" in text
    regression = Federation.from_clients([([[0.0]], [1.0])]).describe()
    assert "regression" in regression
    assert "skew" not in regression
    assert "test: none" in regression
