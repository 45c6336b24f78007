from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from driftless.errors import InputError
from driftless.report.curves import band, group, metrics_of
from report.runs import Folder, accuracies, write_run


def test_runs_that_differ_only_in_their_seeds_are_one_curve(folder: Folder):
    runs = [folder("fedavg", 0, [0.1]), folder("fedavg", 1, [0.2], "data.seed=7"), folder("scaffold", 0, [0.3])]
    curves = group(runs)
    assert [(curve.label, curve.seeds) for curve in curves] == [("fedavg", [0, 1]), ("scaffold", [0])]


def test_how_the_engine_computes_and_where_it_is_written_do_not_part_a_curve(folder: Folder):
    settings = ("engine.kind=block", "engine.threads=2", "run.output=elsewhere", "run.checkpoint_every=3")
    (curve,) = group([folder("fedavg", 0, [0.1]), folder("fedavg", 1, [0.2], *settings)])
    assert curve.seeds == [0, 1]


def test_the_precision_of_the_engine_parts_curves(folder: Folder):
    curves = group([folder("fedavg", 0, [0.1]), folder("fedavg", 0, [0.2], "engine.precision=float64")])
    assert [curve.label for curve in curves] == ["fedavg engine.precision=float32", "fedavg engine.precision=float64"]


def test_curves_of_one_algorithm_are_named_by_the_settings_that_differ(folder: Folder):
    runs = [
        folder("fedavg", 0, [0.1], "local.lr=0.2"),
        folder("fedavg", 0, [0.1]),
        folder("adabest", 0, [0.1], "algorithm.beta=0.5"),
        folder("adabest", 0, [0.1]),
        folder("scaffold", 0, [0.1], "local.lr=0.3"),
    ]
    labels = [curve.label for curve in group(runs)]
    assert labels == [
        "fedavg local.lr=0.2", "fedavg local.lr=0.1", "adabest algorithm.beta=0.5", "adabest algorithm.beta=default",
        "scaffold",
    ]  # fmt: skip


def test_labels_are_different_even_where_long_values_are_shortened(folder: Folder):
    long = [f"run.cohort=[{', '.join('[0, 1]' for _ in range(20))}, [{last}]]" for last in (2, 3)]
    labels = [curve.label for curve in group([folder("fedavg", 0, [0.1], setting) for setting in long])]
    assert len(set(labels)) == 2
    assert all(len(label) < 100 for label in labels)


def test_a_band_is_the_mean_and_the_deviation_over_seeds(folder: Folder):
    (curve,) = group([folder("fedavg", s, [0.1, v]) for s, v in enumerate((0.4, 0.6, 0.8))])
    found = band(curve, "test_accuracy")
    assert found is not None
    assert found.rounds.tolist() == [1, 2]
    assert found.mean == pytest.approx([0.1, 0.6])
    assert found.std == pytest.approx([0.0, 0.2])
    assert found.seeds.tolist() == [3, 3]


def test_a_band_is_over_the_seeds_that_are_left_when_a_run_is_shorter(folder: Folder):
    runs = [folder("fedavg", 0, [0.2, 0.4, 0.6], "run.rounds=3")]
    runs.append(folder("fedavg", 1, [0.4], "run.rounds=3", megabytes=3, status="diverged"))
    (curve,) = group(runs)
    found = band(curve, "test_accuracy")
    assert found is not None
    assert found.mean == pytest.approx([0.3, 0.4, 0.6])
    assert found.seeds.tolist() == [2, 1, 1]
    assert found.std == pytest.approx([math.sqrt(0.02), 0.0, 0.0])
    # the axis is over the same seeds: (1 + 3) / 2 MB with both, then 2 and 3 MB of the one that is left
    assert found.x["megabytes"] == pytest.approx([2.0, 2.0, 3.0])


def test_the_axes_add_up_what_the_rounds_cost_also_those_that_were_not_evaluated(folder: Folder):
    (curve,) = group([folder("fedavg", 0, [None, 0.5, None, 0.7], megabytes=1.5)])
    found = band(curve, "test_accuracy")
    assert found is not None
    assert {axis: values.tolist() for axis, values in found.x.items()} == {
        "rounds": [2, 4], "megabytes": [3, 6], "examples": [20, 40], "time": [5, 10],
    }  # fmt: skip


def test_an_axis_that_was_not_recorded_is_nan(tmp_path: Path):
    (curve,) = group([write_run(tmp_path / "a", [], [{"round": 1, "train_loss": 2.0}])])
    found = band(curve, "train_loss")
    assert found is not None
    assert np.isnan(found.x["megabytes"]).all()
    assert found.x["rounds"].tolist() == [1]


def test_values_that_are_not_finite_numbers_count_as_not_measured(tmp_path: Path):
    values = (1.0, math.nan, math.inf, None, "x", True, 7)
    rows = [{"round": t, "train_loss": value, "norm_x": math.inf} for t, value in enumerate(values, 1)]
    (curve,) = group([write_run(tmp_path / "a", [], rows)])
    found = band(curve, "train_loss")
    assert found is not None
    assert (found.rounds.tolist(), found.mean.tolist()) == ([1, 7], [1.0, 7.0])
    assert band(curve, "norm_x") is None
    assert metrics_of([curve]) == ["train_loss"]


def test_of_a_round_that_was_written_twice_the_later_line_counts(tmp_path: Path):
    rows = [*accuracies([0.1, 0.2]), *accuracies([0.1, 0.3])[1:]]
    (curve,) = group([write_run(tmp_path / "a", [], rows)])
    found = band(curve, "test_accuracy")
    assert found is not None
    assert found.mean.tolist() == [0.1, 0.3]
    assert found.x["megabytes"].tolist() == [1, 2]


def test_a_seed_that_is_there_twice_is_counted_once_and_the_longer_run_is_taken(folder: Folder):
    runs = [
        folder("fedavg", 0, [0.1], "run.rounds=2"),
        folder("fedavg", 0, [0.1, 0.2]),
        folder("fedavg", 1, [0.3, 0.4]),
    ]
    (curve,) = group(runs)
    assert [run.stored for run in curve.runs] == [runs[1], runs[2]]
    assert [run.stored for run in curve.repeated] == [runs[0]]


def test_known_metrics_come_in_their_order_and_unknown_ones_last(tmp_path: Path):
    run = write_run(tmp_path / "a", [], [{"round": 1, "zeta": 1, "norm_x": 1, "alpha": 1, "test_accuracy": 0.5}])
    assert metrics_of(group([run])) == ["test_accuracy", "norm_x", "alpha", "zeta"]


def test_no_run_at_all_is_an_error_that_says_what_to_give():
    with pytest.raises(InputError, match="no run was given; give at least one run directory"):
        group([])
