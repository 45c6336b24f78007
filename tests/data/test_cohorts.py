from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from driftless import EngineSettings, Federation, simulate
from driftless.data.cohorts import (
    Constant,
    Cyclic,
    Doubling,
    Explicit,
    Poisson,
    Schedule,
    as_schedule,
    parse,
    planned_size,
    sampling_of,
    typical_cohort,
)
from driftless.engine.history import Event
from driftless.errors import InputError

SCHEDULES = [Constant(10), Constant(0.25), Doubling(3, 2, 20), Cyclic(7), Cyclic(0.3)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_cohort_is_sorted_without_repetition_and_of_the_announced_size(schedule):
    for t in range(1, 20):
        ids = schedule.clients(t, 40, seed=0)
        assert ids.dtype == np.int64
        assert len(ids) == schedule.size(t, 40)
        assert (np.diff(ids) > 0).all()
        assert 0 <= ids[0] <= ids[-1] < 40


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_cohort_depends_on_the_seed_and_the_round_only(schedule):
    def cohorts(seed, rounds):
        return {t: schedule.clients(t, 1000, seed).tolist() for t in rounds}

    assert cohorts(1, [1, 2, 3]) == cohorts(1, [3, 2, 1])
    assert cohorts(1, [1]) != cohorts(2, [1])
    assert cohorts(1, [1])[1] != cohorts(1, [2])[2]


@pytest.mark.parametrize(
    ("fraction", "clients", "size"),
    [(0.1, 100, 10), (0.1, 25, 3), (0.29, 50, 15), (0.001, 10, 1), (1.0, 7, 7), (0.24, 10, 2), (np.float32(0.5), 9, 5)],
)
def test_a_fraction_is_rounded_half_up_and_is_at_least_one_client(fraction, clients, size):
    assert Constant(fraction).size(1, clients) == size


def test_a_constant_cohort_is_uniform_over_the_clients():
    counts = np.bincount(np.concatenate([Constant(5).clients(t, 20, 0) for t in range(1, 2001)]), minlength=20)
    assert np.abs(counts - 500).max() < 5 * np.sqrt(500)


def test_doubling_by_hand():
    schedule = Doubling(start=3, every=2, maximum=20)
    assert [schedule.size(t, 1000) for t in range(1, 11)] == [3, 3, 6, 6, 12, 12, 20, 20, 20, 20]
    assert [schedule.size(t, 10) for t in (1, 3, 5, 7)] == [3, 6, 10, 10]
    assert schedule.size(10**9, 1000) == 20


@given(clients=st.integers(1, 60), number=st.integers(1, 60), seed=st.integers(0, 100))
def test_cyclic_visits_every_client_once_per_period_in_a_fixed_order(clients, number, seed):
    schedule = Cyclic(min(number, clients))
    period = schedule.period(clients)
    groups = [schedule.clients(t, clients, seed).tolist() for t in range(1, 2 * period + 1)]
    assert sorted(client for group in groups[:period] for client in group) == list(range(clients))
    assert groups[:period] == groups[period:]
    assert all(len(group) == schedule.number for group in groups[: period - 1])


def test_explicit_cohorts_are_taken_as_given():
    schedule = as_schedule([[3, 1], np.array([2])])
    assert schedule.clients(1, 5, seed=9).tolist() == [1, 3]
    assert schedule.clients(2, 5, seed=9).tolist() == [2]
    assert schedule.size(1, 5) == 2
    schedule.check(clients=5, rounds=2)


@pytest.mark.parametrize(
    ("cohort", "schedule"),
    [
        (10, Constant(10)),
        (0.1, Constant(0.1)),
        (np.int64(3), Constant(3)),
        (Cyclic(3), Cyclic(3)),
        ([[1]], Explicit([[1]])),
    ],
)
def test_a_cohort_becomes_a_schedule(cohort, schedule):
    assert as_schedule(cohort) == schedule


@pytest.mark.parametrize(
    "cohort", [True, False, "10", 0, -1, 0.0, 1.5, -0.1, float("nan"), None, [1, 2], ["12"], [[True]]]
)
def test_what_is_no_cohort_is_an_error(cohort):
    with pytest.raises(InputError, match="cohort"):
        as_schedule(cohort)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (Constant(11), "a cohort of 11 clients is larger than the federation of 10 clients; use at most 10"),
        (Doubling(11, 1, 20), "a cohort of 11 clients is larger"),
        (Cyclic(11), "a cohort of 11 clients is larger"),
        (Explicit([[0], [10], [0]]), r"round 2 names client 10, but the 10 clients are 0\.\.9"),
        (Explicit([[0], [1], [-1]]), "round 3 names client -1"),
        (Explicit([[0], [1, 2, 1], [0]]), "round 2 names client 1 more than once"),
        (Explicit([[0], [], [0]]), "round 2 is empty"),
        (Explicit([[0]]), "1 explicit cohorts were given for 3 rounds"),
    ],
)
def test_a_schedule_that_does_not_fit_is_an_error_before_any_work(schedule, message):
    with pytest.raises(InputError, match=message):
        schedule.check(clients=10, rounds=3)


@pytest.mark.parametrize("schedule", [Constant(10), Constant(1.0), Doubling(5, 1, 10**6), Cyclic(10)])
def test_a_schedule_that_fits_passes_the_check(schedule):
    schedule.check(clients=10, rounds=1000)


def test_doubling_must_be_able_to_grow():
    with pytest.raises(InputError, match="cannot grow from 10 to a maximum of 5"):
        Doubling(10, 1, 5)
    with pytest.raises(InputError, match="every of a doubling cohort must be a whole number of at least 1"):
        Doubling(10, 0, 50)


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("10", Constant(10)),
        ("0.1", Constant(0.1)),
        ("1", Constant(1)),
        ("1.0", Constant(1.0)),
        ("cyclic:10", Cyclic(10)),
        ("cyclic:0.2", Cyclic(0.2)),
        ("doubling:10,50,200", Doubling(10, 50, 200)),
        ("poisson:0.1", Poisson(0.1)),
        ("poisson:1", Poisson(1.0)),
    ],
)
def test_the_text_form_of_a_schedule(text, schedule):
    parsed = parse(text)
    assert parsed == schedule
    assert type(getattr(parsed, "number", None)) is type(getattr(schedule, "number", None))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ten", "has 'ten' where a number is needed; allowed forms: 10"),
        ("", "where a number is needed"),
        ("0", "integer >= 1"),
        ("1.5", "got 1.5"),
        ("doubling:10", "has 1 numbers; allowed forms"),
        ("doubling:10,5.5,20", "every of a doubling cohort must be a whole number"),
        ("cyclic:1,2", "has 2 numbers"),
        ("poisson:0.1,2", "has 2 numbers"),
        ("poisson:2", r"probability of a poisson cohort must be a number in \(0, 1\], got 2"),
        ("poisson:0", "probability of a poisson cohort"),
        ("cyclical:10", "unknown cohort schedule 'cyclical'; did you mean 'cyclic'"),
    ],
)
def test_a_text_that_is_no_schedule_is_an_error(text, message):
    with pytest.raises(InputError, match=message):
        parse(text)


def test_a_function_chooses_the_cohort_of_each_round_with_random_numbers_of_its_own():
    same = as_schedule(lambda t, clients, rng: rng.choice(clients, 5, replace=False, shuffle=False))
    assert all((same.clients(t, 20, 3) == Constant(5).clients(t, 20, 3)).all() for t in (1, 2, 9))
    growing = as_schedule(lambda t, clients, rng: range(min(t, clients)))
    assert growing.clients(3, 10, 0).tolist() == [0, 1, 2]
    assert growing.size(20, 10) == 10
    assert as_schedule(lambda t, clients, rng: [4, 1]).clients(1, 5, 0).tolist() == [1, 4]
    growing.check(10, 50)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t, n, rng: [], "the cohort of round 1 is empty"),
        (lambda t, n, rng: [0, 9], r"the cohort of round 1 names client 9, but the 5 clients are 0\.\.4"),
        (lambda t, n, rng: [1, 1], "names client 1 more than once"),
        (lambda t, n, rng: 3, "the cohort of round 1 is 3; give a list of client numbers"),
        (lambda t, n, rng: [0.5], "give a list of client numbers"),
        (lambda t, n, rng: np.zeros((2, 2), dtype=int), "give a list of client numbers"),
        (lambda t, n, rng: [next(COUNT)], "chose two different cohorts for round 1 with the same arguments"),
    ],
)
def test_what_a_function_chooses_is_checked_before_the_run(function, message):
    with pytest.raises(InputError, match=message):
        as_schedule(function).check(5, 10)


COUNT = itertools.cycle(range(5))


def test_a_cohort_of_a_later_round_is_checked_when_it_comes():
    schedule = as_schedule(lambda t, clients, rng: [0] if t < 3 else [99])
    schedule.check(5, 10)
    with pytest.raises(InputError, match="the cohort of round 3 names client 99"):
        schedule.clients(3, 5, 0)


def test_an_error_of_the_function_itself_comes_out_with_a_note():
    with pytest.raises(ZeroDivisionError) as error:
        as_schedule(lambda t, clients, rng: [t // 0]).check(5, 10)
    assert error.value.__notes__ == ["driftless was asking cohort '<lambda>' for the cohort of round 1"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_takes_its_cohorts_from_a_function(workers):
    federation = Federation.from_clients([(torch.ones(2, 1) * i, torch.ones(2)) for i in range(6)])
    chosen = simulate(
        "fedavg", federation, "linear", rounds=4, cohort=lambda t, clients, rng: rng.permutation(clients)[: 1 + t % 3],
        engine=EngineSettings("single", workers=workers),
    )  # fmt: skip
    assert chosen.history["cohort"] == [2, 3, 1, 2]


def test_a_poisson_cohort_takes_each_client_by_itself():
    """Over 20,000 rounds: sizes are binomial, and any two clients meet as often as independent ones."""
    clients, q, rounds = 6, 0.3, 20_000
    taken = np.zeros((rounds, clients))
    for t in range(rounds):
        taken[t, Poisson(q).clients(t + 1, clients, seed=5)] = 1
    four_sigma = 4 / np.sqrt(rounds)
    assert np.abs(taken.mean(0) - q).max() < four_sigma * np.sqrt(q * (1 - q))
    pairs = (taken.T @ taken / rounds)[np.triu_indices(clients, 1)]
    assert np.abs(pairs - q**2).max() < four_sigma * np.sqrt(q**2 * (1 - q**2))
    assert abs((taken.sum(1) == 0).mean() - (1 - q) ** clients) < four_sigma
    assert abs(taken.sum(1).var() - clients * q * (1 - q)) < 0.05


def test_a_poisson_cohort_depends_on_seed_and_round_only():
    one = [Poisson(0.2).clients(t, 50, 3).tolist() for t in range(1, 9)]
    assert one == [Poisson(0.2).clients(t, 50, 3).tolist() for t in range(1, 9)]
    assert len(set(map(tuple, one))) == 8
    assert Poisson(1.0).clients(1, 5, 0).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("schedule", "sampling", "size"),
    [
        (Constant(10), "fixed", 10),
        (Poisson(0.13), "poisson", 13),
        (Cyclic(30), "", 30),
        (Doubling(10, 5, 60), "", 20),
        (Explicit([[0]] * 4 + [[1, 2, 3]] * 6), "", 3),
        (as_schedule(lambda t, clients, rng: [1, 2]), "", 2),
    ],
)
def test_what_is_planned_is_the_expected_or_the_largest_cohort(schedule, sampling, size):
    assert sampling_of(schedule) == sampling
    assert planned_size(schedule, 100, 10) == pytest.approx(size)


def test_an_example_of_a_cohort_is_never_empty():
    assert len(typical_cohort(Poisson(0.02), 10, 0)) > 0
    assert typical_cohort(Poisson(1e-9), 10, 0).tolist() == [0]
    assert (typical_cohort(Constant(4), 10, 0) == Constant(4).clients(1, 10, 0)).all()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_round_without_clients_changes_nothing(workers):
    federation = Federation.from_clients([(torch.ones(2, 1) * i, torch.ones(2)) for i in range(6)])
    records = []
    result = simulate(
        "scaffold", federation, "linear", rounds=12, cohort=Poisson(0.1), seed=1, on_round=records.append,
        engine=EngineSettings("single", workers=workers),
    )  # fmt: skip
    empty = [i for i, record in enumerate(records) if not record.cohort]
    assert len(empty) > 3
    assert len(empty) < 12
    for i in empty[1:]:
        assert torch.equal(records[i].x, records[i - 1].x)
        assert records[i].metrics["bytes_up"] == 0
    assert len(result.state.clients) == len({client for record in records for client in record.cohort})
    said = "round without clients: server state kept as it was"
    assert result.events == [Event(i + 1, said) for i in empty]


@pytest.mark.parametrize("schedule", [Constant(10), Cyclic(10), Doubling(10, 5, 100)], ids=repr)
def test_drawing_a_cohort_of_many_clients_costs_what_the_cohort_costs(schedule: Schedule):
    """A cohort of 10 of 100 million: listing them takes 0.8 GB and, twenty times, many seconds."""
    clients = 10**8 if not isinstance(schedule, Cyclic) else 10**6
    schedule.clients(1, clients, 0)
    tracemalloc.start()
    try:
        drawn = [schedule.clients(t, clients, 0) for t in range(2, 22)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert all(len(cohort) == schedule.size(t, clients) for t, cohort in enumerate(drawn, start=2))
    assert peak < 2**20
