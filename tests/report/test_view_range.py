from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from driftless.report.curves import Band, Curve, group
from driftless.report.view_range import Range, beyond, curve_range, view_of, with_room
from report.runs import Folder


def band_of(values: Sequence[float], std: Sequence[float] | None = None) -> Band:
    rounds = np.arange(1, len(values) + 1)
    spread = np.zeros(len(values)) if std is None else np.array(std)
    return Band(rounds, np.array(values, dtype=float), spread, np.full(len(values), 2), {})


def curves_of(folder: Folder, statuses: Sequence[str]) -> list[Curve]:
    names = ("fedavg", "scaffold", "ghbm", "fedprox")
    return group([folder(names[i], 0, [0.5], status=status) for i, status in enumerate(statuses)])


def test_an_accuracy_of_the_first_round_far_below_the_others_is_not_in_view():
    values = [0.1, *np.linspace(0.80, 0.90, 39)]
    assert curve_range(band_of(values)) == pytest.approx((0.80, 0.90), abs=0.01)


def test_a_curve_that_climbs_slowly_is_shown_whole():
    values = np.linspace(0.1, 0.9, 40).tolist()
    assert curve_range(band_of(values)) == Range(0.1, 0.9)


def test_one_spike_is_not_in_view_and_many_are():
    calm = np.linspace(1.0, 2.0, 38).tolist()
    assert curve_range(band_of([*calm, 50.0, 1.5])) == pytest.approx((1.0, 2.0), abs=0.06)
    assert curve_range(band_of([*calm, *[50.0] * 8])) == Range(1.0, 50.0)


def test_few_points_and_equal_points_are_shown_whole():
    assert curve_range(band_of([0.1, 0.8, 0.81, 0.82])) == Range(0.1, 0.82)
    assert curve_range(band_of([0.0] * 20 + [1.0])) == Range(0.0, 1.0)


def test_the_band_is_in_view_but_not_below_zero_where_the_metric_is_above():
    assert curve_range(band_of([1.0, 0.2], [0.5, 0.5])) == Range(0.2, 1.5)


def test_numbers_that_are_not_finite_do_not_count():
    assert curve_range(band_of([1.0, math.inf, 2.0], [0.0, math.nan, math.inf])) == Range(1.0, 2.0)
    assert curve_range(band_of([math.inf, math.nan])) is None


def test_a_curve_over_many_powers_of_ten_is_whole_and_logarithmic(folder: Folder):
    values = (10.0 ** -np.arange(12)).tolist()
    view = view_of(curves_of(folder, ["finished"]), [band_of(values)])
    assert view.whole == Range(1e-11, 1.0)
    assert view.log


def test_a_curve_that_diverges_does_not_squash_the_others_and_is_named(folder: Folder):
    curves = curves_of(folder, ["finished", "finished", "finished"])
    bands = [band_of([2.0, 1.0]), band_of([2.0, 1e22]), band_of([2.1, 1.5])]
    view = view_of(curves, bands)
    assert view.far == [False, True, False]
    assert view.whole == Range(1.0, 2.1)
    assert not view.log
    assert beyond(curves, bands, Range(1.0, 2.1)) == ["scaffold (up to 1e+22)"]


def test_of_several_curves_that_diverged_none_hides_the_one_that_did_not(folder: Folder):
    curves = curves_of(folder, ["diverged", "finished", "diverged"])
    view = view_of(curves, [band_of([2.0, 1e20]), band_of([2.0, 1.0]), band_of([2.0, 1e22])])
    assert view.far == [True, False, True]
    assert view.whole == Range(1.0, 2.0)


def test_curves_that_all_diverge_are_in_view(folder: Folder):
    curves = curves_of(folder, ["diverged", "diverged"])
    view = view_of(curves, [band_of([1.0, 1e20]), band_of([1.0, 2e20])])
    assert view.far == [False, False]
    assert view.log


def test_a_metric_that_is_always_zero_and_one_without_values_have_a_view(folder: Folder):
    curves = curves_of(folder, ["finished", "finished"])
    assert view_of(curves, [band_of([0.0, 0.0]), None]).whole == Range(0.0, 0.0)
    assert view_of(curves, [None, None]).whole is None


@pytest.mark.parametrize(("log", "wanted"), [(False, (-0.9, 40.9)), (True, (10**-0.1, 10**2.1))])
def test_there_is_a_little_room_on_either_side(log: bool, wanted: tuple[float, float]):
    ends = Range(1.0, 100.0) if log else Range(1.0, 39.0)
    assert with_room(ends, log) == pytest.approx(wanted)
