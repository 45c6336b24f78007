"""Who takes part in a round: rates, the clock, availability, over-selection, all as functions of the seed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from driftless import Faults, InputError
from driftless.data.cohorts import Constant, Cyclic, Doubling, Explicit, Schedule, as_schedule
from driftless.engine.fault_trace import Trace
from driftless.engine.participation import Participation, Selection, availability, check_faults, dropout_rates
from driftless.engine.stragglers import Stragglers, round_time
from engine.problems import classification, regression

CLIENTS = 200
SIZES = np.random.default_rng(0).integers(5, 50, CLIENTS)


def selection(cohort: Any = 20, seed: int = 3, trace: Trace | None = None, **faults: Any) -> Selection:
    schedule = cohort if isinstance(cohort, Schedule) else as_schedule(cohort)
    return Selection(schedule, Stragglers(), Faults(**faults), trace or Trace(), SIZES, seed)


def rounds(number: int, **given: Any) -> list[Participation]:
    chosen = selection(**given)
    return [chosen.of_round(t) for t in range(1, number + 1)]


def everyone(found: Participation) -> list[int]:
    return sorted([*found.cohort.tolist(), *(i for lost in found.lost.values() for i in lost.tolist())])


@pytest.mark.parametrize(
    "cohort", [Constant(20), Constant(0.3), Cyclic(7), Doubling(2, 3, 50), Explicit([[5, 1]] * 30)]
)
def test_without_faults_the_schedules_clients_take_part_in_the_time_of_the_slowest(cohort: Schedule):
    for t in range(1, 31):
        found, expected = selection(cohort).of_round(t), cohort.clients(t, CLIENTS, 3)
        assert found.cohort.tolist() == expected.tolist()
        assert found.time == round_time(SIZES[expected], 1.0, 1.0, 3, t)
        assert all(len(lost) == 0 for lost in found.lost.values())
        assert found.available == CLIENTS


def test_the_share_of_clients_that_drop_out_is_the_probability():
    found = rounds(500, dropout=0.2)
    lost = sum(len(each.lost["dropout"]) for each in found)
    assert abs(lost / (500 * 20) - 0.2) < 4 * np.sqrt(0.2 * 0.8 / (500 * 20))
    plain = rounds(500)
    assert [everyone(each) for each in found] == [each.cohort.tolist() for each in plain]
    assert [each.time for each in found] == [each.time for each in plain]


def test_a_higher_rate_loses_the_same_clients_and_more():
    for low, high in zip(rounds(50, dropout=0.1), rounds(50, dropout=0.4), strict=True):
        assert set(low.lost["dropout"]) <= set(high.lost["dropout"])


def test_rates_of_clients_have_the_mean_and_the_variance_that_were_asked_for():
    for spread in (0.05, 0.5, 0.95):
        rates = dropout_rates(Faults(dropout=0.3, dropout_spread=spread), 100_000, 0)
        assert abs(rates.mean() - 0.3) < 0.01
        assert rates.var() == pytest.approx(spread * 0.3 * 0.7, rel=0.03)
    for mean, spread in [(1e-300, 0.5), (0.3, 1e-300), (5e-324, 1 - 1e-16), (0.0, 0.5), (1 - 1e-16, 0.999)]:
        rates = dropout_rates(Faults(dropout=mean, dropout_spread=spread), 1000, 0)
        assert ((rates >= 0) & (rates <= 1)).all()


def test_a_client_drops_out_at_its_own_rate_in_all_rounds():
    faults = Faults(dropout=0.3, dropout_spread=0.5)
    rates, counts, number = dropout_rates(faults, CLIENTS, 3), np.zeros(CLIENTS), 400
    for each in rounds(number, cohort=CLIENTS, dropout=0.3, dropout_spread=0.5):
        counts[each.lost["dropout"]] += 1
    assert min(binom.sf(counts - 1, number, rates).min(), binom.cdf(counts, number, rates).min()) > 1e-5


def test_a_list_of_rates_has_one_for_each_client():
    rates = [0.0] * 100 + [1.0] * 100
    for each in rounds(20, dropout=rates):
        assert (each.cohort < 100).all()
        assert (each.lost["dropout"] >= 100).all()


def test_a_client_that_takes_longer_than_the_deadline_misses_it():
    chosen, plain = selection(deadline=40.0), selection()
    seen = set()
    for t in range(1, 100):
        found, all_of_them = chosen.of_round(t), plain.of_round(t).cohort
        times = Stragglers().times(SIZES[all_of_them], 3, t)
        assert found.cohort.tolist() == all_of_them[times <= 40].tolist()
        assert found.lost["deadline"].tolist() == all_of_them[times > 40].tolist()
        assert found.time == min(40.0, times.max())
        seen.add(found.time == 40.0)
    assert True in seen


def test_over_selection_keeps_the_first_by_simulated_time():
    for t, found in enumerate(rounds(60, over_selection=1.3), start=1):
        everybody = np.array(everyone(found))
        times = Stragglers().times(SIZES[everybody], 3, t)
        assert len(everybody) == 26
        assert len(found.cohort) == 20
        first = everybody[np.argsort(times)[:20]]
        assert found.cohort.tolist() == sorted(first.tolist())
        assert found.lost["surplus"].tolist() == sorted(set(everybody) - set(first))
        assert found.time == np.sort(times)[19]


def test_over_selection_fills_the_places_of_those_that_drop_out_or_are_late():
    for t, found in enumerate(rounds(200, over_selection=1.5, dropout=0.3, deadline=60.0), start=1):
        everybody = np.array(everyone(found))
        times = Stragglers().times(SIZES[everybody], 3, t)
        arriving = ~np.isin(everybody, found.lost["dropout"]) & (times <= 60)
        assert len(found.cohort) == min(20, arriving.sum())
        assert found.time <= 60
        if arriving.sum() >= 20:
            assert found.time == np.sort(times[arriving])[19]
            assert len(found.lost["deadline"]) == 0
        else:
            assert len(found.lost["surplus"]) == 0
        assert found.row["selected"] == 30


def test_the_number_that_is_selected_is_rounded_up_in_decimals():
    assert len(everyone(selection(10, over_selection=1.1).of_round(1))) == 11
    assert len(everyone(selection(10, over_selection=1.11).of_round(1))) == 12
    assert len(everyone(selection(180, over_selection=1.3).of_round(1))) == CLIENTS


def test_cohorts_are_drawn_uniformly_among_the_available_clients():
    faults: dict[str, Any] = {"availability": "client", "availability_mean": 0.4, "availability_spread": 0.6}
    rates = availability(Faults(**faults), 1, CLIENTS, 3)
    assert (rates == availability(Faults(**faults), 9, CLIENTS, 3)).all()
    counts, number, there = np.zeros(CLIENTS), 3000, []
    for each in rounds(number, **faults):
        assert len(each.cohort) == 20
        assert not len(each.lost["unavailable"])
        counts[each.cohort] += 1
        there.append(each.available)
    assert abs(np.mean(there) - rates.sum()) < 4 * np.sqrt((rates * (1 - rates)).sum() / number)
    # Given that it is there, each client has about the same chance.
    share = counts / number / (20 * rates / rates.sum())
    assert np.abs(share[rates > 0.2] - 1).max() < 0.25
    assert counts[rates < 1e-4].sum() <= 1


def test_if_too_few_are_available_all_of_them_take_part_and_if_nobody_is_the_round_is_empty():
    few = rounds(100, cohort=150, availability="client", availability_mean=0.3, availability_spread=0.0)
    assert all(len(each.cohort) == each.available < 150 for each in few)
    nobody = selection(cohort=5, availability="client", availability_mean=1e-9, availability_spread=0.0).of_round(1)
    assert (len(nobody.cohort), nobody.time, nobody.available) == (0, 0.0, 0)


@pytest.mark.parametrize("zones", [0.0, 0.5, 1.0])
def test_diurnal_availability_follows_a_cosine_over_the_day(zones: float):
    curved: dict[str, Any] = {"availability": "diurnal", "availability_mean": 0.4, "availability_swing": 0.9}
    faults = curved | {"availability_day": 12}
    settings = Faults(**faults, availability_zones=zones)
    curve = np.array([availability(settings, t, CLIENTS, 3) for t in range(1, 25)])
    assert np.allclose(curve[:12], curve[12:])
    assert np.allclose(curve[:12].mean(0), 0.4)
    assert curve.min() >= 0.4 - 0.36 - 1e-12
    assert curve.max() <= 0.4 + 0.36 + 1e-12
    if zones == 0:
        assert np.allclose(curve[:, 0], 0.4 + 0.36 * np.cos(2 * np.pi * np.arange(24) / 12))
        assert np.allclose(curve, curve[:, :1])
    counts = np.array([each.available for each in rounds(1200, **faults, availability_zones=zones)])
    by_hour = counts.reshape(100, 12).mean(0)
    assert np.abs(by_hour - curve[:12].sum(1)).max() < 4 * np.sqrt(CLIENTS * 0.25 / 100)


def test_clients_that_a_schedule_names_and_that_are_not_available_are_lost():
    for cohort in (Cyclic(20), Explicit([list(range(20))] * 30), lambda t, n, rng: rng.choice(n, 20, replace=False)):
        schedule = as_schedule(cohort)
        for t, each in enumerate(rounds(30, cohort=schedule, availability="diurnal"), start=1):
            assert everyone(each) == schedule.clients(t, CLIENTS, 3).tolist()
            assert each.row["selected"] == len(each.cohort)
            assert len(each.lost["unavailable"]) > 0


def test_everything_depends_on_the_seed_and_the_round_alone():
    faults: dict[str, Any] = {"dropout": 0.2, "over_selection": 1.5, "deadline": 60.0, "availability": "diurnal"}
    one, other = selection(**faults), selection(**faults)
    late_first = {t: other.of_round(t) for t in range(30, 0, -1)}
    for t in range(1, 31):
        assert same(one.of_round(t), late_first[t])
    different = selection(seed=4, **faults)
    assert not all(same(one.of_round(t), different.of_round(t)) for t in range(1, 5))


def same(one: Participation, other: Participation) -> bool:
    lost = [(reason, clients.tolist()) for reason, clients in one.lost.items()]
    return (
        one.cohort.tolist() == other.cohort.tolist()
        and lost == [(reason, clients.tolist()) for reason, clients in other.lost.items()]
        and one[2:] == other[2:]
    )


@pytest.mark.parametrize(
    ("faults", "cohort", "complaint"),
    [
        ({"over_selection": 1.3}, Cyclic(2), "needs a cohort that is drawn at random"),
        ({"over_selection": 1.3}, Explicit([[0]]), "needs a cohort that is drawn at random"),
        ({"dropout": [0.1, 0.2]}, Constant(2), "has 2 rates, and there are 3 clients"),
        ({"deadline": 1.5}, Constant(2), "shorter than the fastest client"),
        ({"attack": "label-flip", "attackers": 0.5}, Constant(2), "needs class labels"),
    ],
)
def test_faults_that_do_not_fit_the_run_are_refused(faults: dict[str, Any], cohort: Schedule, complaint: str):
    with pytest.raises(InputError, match=complaint):
        check_faults(Faults(**faults), cohort, Stragglers(), regression([2, 3, 4]))
    check_faults(Faults(attack="label-flip", attackers=0.5), Constant(2), Stragglers(), classification([2, 3, 4]))
