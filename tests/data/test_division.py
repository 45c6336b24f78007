"""A user's own function as a partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from driftless.data import DATASETS, DataSource, Examples, load
from driftless.data.federation import Federation
from driftless.errors import InputError
from driftless.random import stream

INPUTS, LABELS = np.arange(12.0)[:, None], np.arange(12) % 3


def by_label(labels, clients):
    return labels % clients


def drawn(n, clients, rng, share=0.5):
    """`share` of all examples for client 0, the others in turn."""
    owner = np.arange(n) % clients
    owner[rng.random(n) < share] = 0
    return owner


def made(partition: Any, clients: int | None = None, **options: Any) -> Federation:
    return Federation.from_dataset((INPUTS, LABELS), partition, clients, **options)


def test_its_parameters_are_filled_in_by_name_and_the_others_are_options():
    assert made(by_label, 3).sizes.tolist() == [4, 4, 4]
    assert made(drawn, 2, share=0.0).sizes.tolist() == [6, 6]
    expected = drawn(12, 2, stream(7, "partition"))
    assert made(drawn, 2, seed=7).sizes.tolist() == np.bincount(expected).tolist()


def test_without_a_number_of_clients_it_may_make_any():
    assert made(lambda n: [f"c{i // 5}" for i in range(n)]).client_names == ("c0", "c1", "c2")
    assert made(lambda labels: torch.from_numpy(labels)).client_names == ("0", "1", "2")
    named = made(lambda n: (np.arange(n) % 2, ("even", "odd")))
    assert named.client_names == ("even", "odd")
    assert named.client(1)[0].flatten().tolist() == [1, 3, 5, 7, 9, 11]


def test_it_may_ask_for_users_and_coarse_labels():
    def pairs(users, coarse):
        return list(zip(users, coarse.tolist(), strict=True))

    federation = made(pairs, user=["a", "b"] * 6, coarse=LABELS // 2)
    assert federation.client_names == ("('a', 0)", "('b', 0)", "('a', 1)", "('b', 1)")


def test_load_takes_it_with_options_of_the_data_set(monkeypatch: pytest.MonkeyPatch):
    def source(width: int = 1) -> Examples:
        return Examples(torch.zeros(12, width), torch.from_numpy(LABELS), users=["u"] * 12, test_users=[])

    monkeypatch.setitem(DATASETS, "small", DataSource(source, "for this test", provides=("users",)))
    federation = load("small", partition=drawn, clients=2, share=0.0, width=3)
    assert federation.sizes.tolist() == [6, 6]
    assert federation.input_shape == (3,)
    assert load("digits", partition=by_label, clients=10).label_skew() == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize(
    ("partition", "clients", "options", "message"),
    [
        (by_label, 4, {}, r"partition 'by_label' gives client 3 no examples \(1 of 4 clients are empty\)"),
        (lambda n, clients: np.arange(n), 4, {}, "the client of each example: 12 integers. .* from 0 to 11"),
        (lambda n: np.zeros(3, int), None, {}, "12 integers. assignment has 3 entries for 12 examples"),
        (lambda n: None, None, {}, "must return the client of each example: 12 integers"),
        (lambda n: np.zeros(n), None, {}, "12 integers. .* got float64"),
        (by_label, None, {"share": 1}, "unknown option of the data set / partition 'by_label' 'share'"),
        (lambda n, x: x, None, {}, "needs x; give it"),
        (lambda n: np.arange(n), 4, {}, "does not take the number of clients, so clients=4 has no use"),
        (lambda users: users, None, {}, "needs the user of each example, and the data set has none; give user="),
        (lambda *all: None, None, {}, r"has the parameter '\*all'; its parameters must have names"),
        (lambda n, seed: None, None, {}, "has the parameter 'seed', which is a setting of the federation; .*`rng`"),
        (lambda n: (np.arange(n) % 2, ("even",)), None, {}, "names 1 clients, and divides the examples among 2"),
    ],
)  # fmt: skip
def test_what_it_returns_and_asks_for_is_checked(partition: Any, clients: Any, options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        made(partition, clients, **options)


def test_its_own_error_comes_out_with_a_note():
    with pytest.raises(ZeroDivisionError) as error:
        made(lambda n: n / 0)
    assert error.value.__notes__ == ["driftless was calling partition '<lambda>'"]
