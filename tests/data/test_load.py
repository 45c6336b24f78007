from __future__ import annotations

import numpy as np
import pytest
import torch

from driftless.data import DATASETS, PARTITIONS, DataSource, Examples, load
from driftless.errors import InputError


def writers(width: int = 2) -> Examples:
    """Six examples of three users and three test examples, one of them of a user who has no training data."""
    return Examples(
        torch.arange(6.0)[:, None].expand(6, width),
        torch.tensor([0, 1, 2, 3, 0, 1]),
        test=(torch.arange(3.0)[:, None].expand(3, width), torch.tensor([0, 1, 2])),
        classes=4,
        coarse=np.array([0, 0, 1, 1, 0, 0]),
        users=["b", "a", "b", "c", "a", "b"],
        test_users=["c", "z", "b"],
    )


@pytest.fixture
def with_users(monkeypatch):
    monkeypatch.setitem(DATASETS, "writers", DataSource(writers, "for this test", provides=("users", "coarse")))


def test_digits_are_loaded_as_in_the_readme():
    federation = load("digits", clients=100, partition="dirichlet", alpha=0.3, seed=0)
    assert federation.clients == 100
    assert federation.sizes.sum() == 1437
    assert np.ptp(federation.sizes) <= 1
    assert federation.name == "digits"
    assert federation.classes == 10
    assert federation.test is not None
    assert federation.label_skew() > 0.4


def test_by_default_digits_are_divided_by_dirichlet_0_1_over_a_hundred_clients():
    federation, named = load("digits"), load("digits", clients=100, partition="dirichlet", alpha=0.1)
    assert federation.clients == 100
    assert torch.equal(federation.inputs, named.inputs)
    assert federation.label_skew() > 0.6
    assert np.ptp(federation.sizes) <= 1
    other = load("digits", alpha=100.0, sizes="lognormal")
    assert torch.equal(other.inputs, load("digits", partition="dirichlet", alpha=100.0, sizes="lognormal").inputs)


def test_the_seed_decides_the_partition_and_not_the_test_set():
    first, again, other = (load("digits", clients=10, partition="shards", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.inputs, again.inputs)
    assert not torch.equal(first.inputs, other.inputs)
    assert first.test is not None
    assert other.test is not None
    assert torch.equal(first.test[0], other.test[0])


def test_validation_clients_are_held_out_of_the_number_asked_for():
    federation = load("digits", clients=20, validation=0.25)
    assert federation.clients == 15
    assert federation.validation is not None
    assert federation.validation.clients == 5
    assert load("quadratics", clients=8, validation=2).clients == 6


def test_problems_with_clients_take_their_own_options():
    federation = load("quadratics", clients=4, dimension=3, heterogeneity=0.5, seed=3)
    assert federation.clients == 4
    assert federation.input_shape == (3,)
    assert load("linear-regression").clients == 20


@pytest.mark.usefixtures("with_users")
def test_data_with_users_have_one_client_per_user_by_default():
    federation = load("writers", width=3)
    assert federation.client_names == ("b", "a", "c")
    assert federation.sizes.tolist() == [3, 2, 1]
    assert federation.input_shape == (3,)
    assert federation.client_test is not None
    assert federation.client_test.sizes.tolist() == [1, 0, 1]
    assert federation.client_test.client(2)[1].tolist() == [0]
    assert load("writers", clients=2, partition="pachinko", beta=1.0).clients == 2
    with pytest.raises(InputError, match="one client per user, so clients=5 has no use"):
        load("writers", clients=5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "digit"}, "unknown data set 'digit'; did you mean 'digits'?"),
        ({"name": "digits", "partition": "dirichlett"}, "unknown partition 'dirichlett'; did you mean 'dirichlet'?"),
        (
            {"name": "digits", "partition": "dirichlet", "alhpa": 0.3},
            "unknown option of data set 'digits' / partition 'dirichlet' 'alhpa'; did you mean 'alpha'?",
        ),
        (
            {"name": "digits", "partition": "iid", "alpha": 0.3},
            "partition 'iid' has no alpha; it is an option of partition dirichlet or prior-dirichlet or pachinko.",
        ),
        ({"name": "quadratics", "alpha": 0.3}, "unknown option of data set 'quadratics' 'alpha'"),
        ({"name": "digits", "client": 3}, "did you mean 'clients'?"),
        ({"name": "quadratics", "dimensions": 3}, "unknown option of data set 'quadratics' 'dimensions'; did you mean"),
        ({"name": "quadratics", "partition": "iid"}, "data set 'quadratics' already comes as clients"),
        ({"name": "digits", "partition": "dirichlet"}, "partition 'dirichlet' needs alpha"),
        ({"name": "digits", "partition": "dirichlet", "alpha": 0}, "alpha must be"),
        ({"name": "digits", "partition": "natural"}, "needs the user of each example, and data set 'digits' has none"),
        ({"name": "digits", "partition": "pachinko"}, "needs coarse labels, and data set 'digits' has none"),
        ({"name": "digits", "clients": 0}, "clients must be a whole number of at least 1, got 0"),
        ({"name": "digits", "clients": 2000}, "1437 examples are too few for 2000 clients"),
        ({"name": "digits", "clients": 10, "validation": 10}, "holding out 10 of 10 clients"),
        ({"name": "digits", "seed": "a"}, "seed must be a whole number"),
    ],
)
def test_what_cannot_be_loaded_is_an_error_that_says_what_to_do(options, message):
    with pytest.raises(InputError) as error:
        load(**options)
    assert message in str(error.value)


def test_a_bad_option_is_found_before_the_data_are_loaded(monkeypatch):
    def download() -> Examples:
        raise AssertionError("the data were loaded")

    monkeypatch.setitem(DATASETS, "far", DataSource(download, "for this test"))
    for options in ({"partition": "dirichlet", "alpha": -1}, {"partition": "shards", "shards_per_client": 0}):
        with pytest.raises(InputError):
            load("far", **options)
    for options in ({"validation": 100}, {"partition": "pachinko"}, {"partition": "natural"}):
        with pytest.raises(InputError):
            load("far", **options)


def test_no_option_means_one_thing_to_a_data_set_and_another_to_a_partition():
    reserved = {"clients", "partition", "seed", "validation", "name"}
    for source in DATASETS.values():
        for rule in PARTITIONS.values():
            assert not set(source.options) & (set(rule.options) | reserved)
    for entry in (*DATASETS.values(), *PARTITIONS.values()):
        assert entry.summary
        assert "\n" not in entry.summary
