from __future__ import annotations

import math
from pathlib import Path

import pytest

from driftless.errors import InputError
from driftless.report.metrics import metric
from driftless.report.summary import Row, Summary, summarise
from driftless.runs.directory import StoredRun
from report.runs import Folder, accuracies, write_run


def row(summary: Summary, label: str) -> Row:
    return next(row for row in summary.rows if row.label == label)


def test_final_best_and_last_are_means_and_deviations_over_seeds(folder: Folder):
    # 20 evaluations: the last tenth, two of them, make up the last mean
    runs = [folder("fedavg", s, [0.1] * 17 + [0.9, 0.5 + s / 10, 0.7 + s / 10]) for s in (0, 1)]
    (only,) = summarise(runs).rows
    assert only.final == pytest.approx((0.75, math.sqrt(0.005), 2))
    assert only.best == pytest.approx((0.9, 0.0, 2))
    assert only.last == pytest.approx((0.65, math.sqrt(0.005), 2))
    assert (only.seeds, only.last_count) == (2, 2)


def test_at_most_ten_evaluations_make_up_the_last_mean(folder: Folder):
    (only,) = summarise([folder("fedavg", 0, [0.0] * 190 + [0.5] * 10)]).rows
    assert only.last == (0.5, None, 1)
    assert only.last_count == 10


def test_the_target_is_the_final_quality_of_fedavg_and_fedavg_is_charged_its_whole_training(folder: Folder):
    runs = [folder("fedavg", s, [0.2, 0.9, 0.3, 0.4 + 0.2 * s]) for s in (0, 1)]
    runs += [folder("scaffold", s, [0.2, 0.5 + 0.1 * s, 0.7, 0.8], megabytes=2) for s in (0, 1)]
    summary = summarise(runs)
    (target,) = summary.targets
    assert (target.value, target.rule, target.baseline) == (pytest.approx(0.5), "fedavg", "fedavg")
    fedavg, scaffold = row(summary, "fedavg"), row(summary, "scaffold")
    # FedAvg passes 0.5 in round 2 already: by the rule it is charged four rounds all the same
    assert fedavg.costs["rounds"] == (4.0, 2, 2, 1.0, "")
    assert scaffold.costs["rounds"] == (2.0, 2, 2, 0.5, "")
    assert scaffold.costs["megabytes"] == (4.0, 2, 2, 1.0, "")
    assert scaffold.costs["examples"].value == 20
    assert scaffold.costs["time"].value == 5


def test_missing_the_target_with_three_times_the_traffic_costs_three_times_as_much(folder: Folder):
    """MimeMom in table 4 of the GHBM paper: +200 %."""
    runs = [folder("fedavg", 0, [0.5] * 10), folder("mime", 0, [0.4] * 10, megabytes=3)]
    cost = row(summarise(runs), "mime").costs["megabytes"]
    assert (cost.value, cost.reached, cost.relative, cost.bound) == (pytest.approx(30), 0, pytest.approx(3), "≥")


def test_a_seed_that_misses_the_target_counts_with_its_whole_training(folder: Folder):
    runs = [folder("fedavg", s, [0.5] * 4) for s in (0, 1)]
    runs += [folder("scaffold", 0, [0.1, 0.6, 0.6, 0.6]), folder("scaffold", 1, [0.1, 0.2, 0.3, 0.4])]
    cost = row(summarise(runs), "scaffold").costs["rounds"]
    assert cost == (3.0, 1, 2, 0.75, "≥")


def test_a_diverged_seed_is_charged_the_whole_budget_and_left_out_of_the_final_value(folder: Folder):
    runs = [folder("fedavg", s, [0.5] * 4) for s in (0, 1)]
    runs.append(folder("scaffold", 0, [0.1, 0.6, 0.7, 0.8]))
    runs.append(folder("scaffold", 1, [0.1, 0.2], "run.rounds=4", status="diverged"))
    summary = summarise(runs)
    scaffold = row(summary, "scaffold")
    assert scaffold.final == (0.8, None, 1)
    assert (scaffold.seeds, scaffold.diverged) == (2, 1)
    assert scaffold.costs["rounds"].value == (2 + 4) / 2
    assert scaffold.costs["megabytes"].value == pytest.approx((2 + 4) / 2)


def test_a_curve_whose_runs_all_diverged_has_no_final_value_and_comes_last(folder: Folder):
    runs = [folder("feddyn", 0, [], "run.rounds=4", status="diverged"), folder("fedavg", 0, [0.1, 0.2])]
    summary = summarise(runs)
    assert [(r.label, r.final is None, r.diverged) for r in summary.rows] == [("fedavg", False, 0), ("feddyn", True, 1)]
    assert row(summary, "feddyn").costs == {}


def test_with_a_given_target_fedavg_too_is_charged_until_it_reaches_it(folder: Folder):
    runs = [folder("fedavg", 0, [0.1, 0.5, 0.9, 0.9]), folder("scaffold", 0, [0.6, 0.7, 0.8, 0.9])]
    summary = summarise(runs, target=0.5)
    assert summary.targets[0].rule == "given"
    assert row(summary, "fedavg").costs["rounds"] == (2.0, 1, 1, 1.0, "")
    assert row(summary, "scaffold").costs["rounds"] == (1.0, 1, 1, 0.5, "")


def test_the_ratio_is_an_upper_bound_when_fedavg_misses_the_target(folder: Folder):
    runs = [folder("fedavg", 0, [0.1] * 4), folder("scaffold", 0, [0.1, 0.6, 0.6, 0.6])]
    summary = summarise(runs, target=0.6)
    assert row(summary, "scaffold").costs["rounds"][3:] == (0.5, "≤")


def test_there_is_no_ratio_when_neither_reaches_the_target(folder: Folder):
    runs = [folder("fedavg", 0, [0.1] * 4), folder("scaffold", 0, [0.2] * 4)]
    assert row(summarise(runs, target=0.6), "scaffold").costs["rounds"] == (4.0, 0, 1, None, "")


def test_the_target_that_the_runs_were_started_with_counts_as_given(folder: Folder):
    runs = [folder(name, 0, [0.1, 0.4, 0.8], "run.target=0.4") for name in ("fedavg", "scaffold")]
    assert summarise(runs).targets[0][:2] == (0.4, "given")
    assert summarise(runs, target=0.7).targets[0].value == 0.7


def test_the_target_of_a_comparison_counts_as_given_for_its_runs(tmp_path: Path):
    runs = [write_run(tmp_path / name / "seed-0", [f"algorithm={name}"], accuracies([0.1, 0.4]))
            for name in ("fedavg", "scaffold")]  # fmt: skip
    assert summarise(runs).targets[0].rule == "fedavg"
    (tmp_path / "comparison.json").write_text('{"runs": [], "target": 0.3}', encoding="utf-8")
    assert summarise(runs).targets[0][:2] == (0.3, "given")


def test_the_target_of_a_sweep_counts_as_given_in_each_cell(tmp_path: Path):
    runs = [write_run(tmp_path / f"clients={n}" / name / "seed-0", [f"algorithm={name}", f"data.clients={n}"],
                      accuracies([0.1, 0.4])) for n in (10, 20) for name in ("fedavg", "scaffold")]  # fmt: skip
    assert [target.rule for target in summarise(runs).targets] == ["fedavg", "fedavg"]
    (tmp_path / "comparison.json").write_text('{"runs": [], "target": 0.3, "sweep": ["data.clients"]}', "utf-8")
    assert [target[:2] for target in summarise(runs).targets] == [(0.3, "given")] * 2


def test_without_fedavg_the_target_is_nine_tenths_of_the_best_and_nothing_is_relative(folder: Folder):
    runs = [folder("scaffold", 0, [0.1, 0.8]), folder("ghbm", 0, [0.75, 0.9])]
    summary = summarise(runs)
    assert summary.targets[0][:3] == (0.81, "best", None)
    assert row(summary, "ghbm").costs["rounds"] == (2.0, 1, 1, None, "")


def test_a_target_that_is_a_mean_is_reached_by_an_equal_accuracy_despite_rounding(folder: Folder):
    runs = [folder("fedavg", s, [0.1, 0.1 * s]) for s in (1, 2, 3)] + [folder("scaffold", 0, [0.1, 0.2])]
    assert row(summarise(runs), "scaffold").costs["rounds"].reached == 1


def test_of_several_fedavg_curves_the_best_is_the_one_to_beat(folder: Folder):
    runs = [
        folder("fedavg", 0, [0.5, 0.6], "local.lr=0.2"),
        folder("fedavg", 0, [0.3, 0.4]),
        folder("ghbm", 0, [0.6, 0.7]),
    ]
    assert summarise(runs).targets[0].baseline == "fedavg local.lr=0.2"


def test_curves_are_only_compared_with_fedavg_on_the_same_data_and_model(folder: Folder):
    easy = [folder(name, 0, [0.8, 0.9], "data.partition=iid") for name in ("fedavg", "scaffold")]
    hard = ("data.partition=dirichlet", "data.alpha=0.1")
    hard_runs = [folder("fedavg", 0, [0.1, 0.2], *hard), folder("scaffold", 0, [0.3, 0.4], *hard)]
    summary = summarise([*easy, *hard_runs])
    assert [round(target.value, 3) for target in summary.targets] == [0.9, 0.2]
    ratios = {row.target.value: row.costs["rounds"].relative for row in summary.rows if row.algorithm == "scaffold"
              and row.target}  # fmt: skip
    assert ratios == {0.9: 1.0, 0.2: 0.5}


def test_without_accuracies_runs_are_judged_by_their_loss_the_lowest_first(tmp_path: Path):
    losses = {"fedavg": [4.0, 3.0, 2.0], "scaffold": [4.0, 2.0, 1.0]}
    runs = [
        write_run(
            tmp_path / name, [f"algorithm={name}"], [{"round": t, "train_loss": v} for t, v in enumerate(values, 1)]
        )
        for name, values in losses.items()
    ]
    summary = summarise(runs)
    assert summary.headline is not None
    assert summary.headline.key == "train_loss"
    assert [row.label for row in summary.rows] == ["scaffold", "fedavg"]
    assert row(summary, "scaffold").costs == {"rounds": (2.0, 1, 1, pytest.approx(2 / 3), "")}


def test_runs_under_way_show_where_they_are_until_one_of_them_has_ended(folder: Folder):
    under_way = [folder("fedavg", s, [0.1, 0.2 + s], "run.rounds=4", status=None) for s in (0, 1)]
    (only,) = summarise(under_way).rows
    assert (only.final, only.unfinished) == (pytest.approx((0.7, math.sqrt(0.5), 2)), 2)
    (only,) = summarise([*under_way, folder("fedavg", 2, [0.1, 0.2, 0.3, 0.4])]).rows
    assert (only.final, only.unfinished) == ((0.4, None, 1), 2)


def test_a_run_without_a_single_round_has_nothing_to_say_and_breaks_nothing(folder: Folder):
    summary = summarise([folder("fedavg", 0, [], status=None)])
    assert summary.headline is None
    (only,) = summary.rows
    assert (only.final, only.norm, only.failures, only.costs, only.unfinished) == (None, None, None, {}, 1)


def test_failures_are_counted_over_all_seeds(tmp_path: Path):
    runs = [
        write_run(tmp_path / f"{seed}", [f"run.seed={seed}"], [{"round": t, "failure": int(t == 2)} for t in (1, 2, 3)])
        for seed in (0, 1)
    ]
    (only,) = summarise(runs).rows
    assert only.failures == 2


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (90, r"target .*0\.9 for 90 %.* must be a number in \(0, 1\], got 90; set it"),
        (0.0, r"must be a number in \(0, 1\], got 0"),
        (math.nan, r"must be a number in \(0, 1\], got nan"),
    ],
)
def test_a_target_that_is_no_accuracy_is_refused(folder: Folder, target: float, message: str):
    with pytest.raises(InputError, match=message):
        summarise([folder("fedavg", 0, [0.5])], target)


def test_a_target_is_refused_when_there_is_nothing_to_compare_with_it(folder: Folder):
    with pytest.raises(InputError, match="recorded neither accuracy nor loss; leave the target out"):
        summarise([folder("fedavg", 0, [None, None])], 0.5)


def judged(tmp_path: Path, name: str, column: str, values: list[float], *settings: str) -> StoredRun:
    rows = [row | {column: value} for row, value in zip(accuracies([0.5] * len(values)), values, strict=True)]
    return write_run(tmp_path / name, [f"algorithm={name}", *settings], rows)


def test_runs_are_judged_by_the_metric_that_they_monitored_in_its_direction(tmp_path: Path):
    chosen = ["metrics=perplexity", "evaluate.monitor=test_perplexity", "evaluate.mode=min", "target=5.0"]
    runs = [
        judged(tmp_path, "fedavg", "test_perplexity", [9.0, 6.0, 4.0], *chosen),
        judged(tmp_path, "scaffold", "test_perplexity", [8.0, 4.9, 3.0], *chosen),
    ]
    summary = summarise(runs)
    assert summary.headline is not None
    assert (summary.headline.key, summary.headline.better) == ("test_perplexity", "low")
    assert [row.label for row in summary.rows] == ["scaffold", "fedavg"]
    assert summary.rows[0].best == (3.0, None, 1)
    assert [row.costs["rounds"].value for row in summary.rows] == [2.0, 3.0]
    assert summarise(runs, target=3.5).rows[1].costs["rounds"].reached == 0


def test_a_metric_of_the_users_own_has_the_direction_that_was_decided_when_the_run_began(tmp_path: Path):
    chosen = ["evaluate.monitor=test_mine", "evaluate.mode=min"]
    runs = [judged(tmp_path, name, "test_mine", [2.0, end], *chosen) for name, end in (("fedavg", 1.5), ("mime", 1.0))]
    summary = summarise(runs)
    assert summary.headline == metric("test_mine")._replace(better="low")
    assert summary.rows[0].label == "mime"


def test_runs_that_monitored_different_metrics_are_judged_by_their_accuracy(tmp_path: Path):
    one = judged(tmp_path, "fedavg", "test_f1", [0.4], "evaluate.monitor=test_f1", "evaluate.mode=max")
    other = judged(tmp_path, "mime", "test_f1", [0.4], "evaluate.monitor=test_loss", "evaluate.mode=min")
    assert summarise([one, other]).headline == metric("test_accuracy")


def test_metrics_and_what_is_monitored_do_not_make_another_curve(tmp_path: Path):
    one = write_run(tmp_path / "a", ["run.seed=0", "metrics=f1"], accuracies([0.5]))
    other = write_run(tmp_path / "b", ["run.seed=1", "evaluate.monitor=test_accuracy"], accuracies([0.6]))
    assert [curve.seeds for curve in summarise([one, other]).curves] == [[0, 1]]


@pytest.mark.parametrize(
    ("key", "name", "better"),
    [
        ("test_f1", "test f1", "high"),
        ("validation_rmse_p5", "validation rmse, 5th percentile of clients", "low"),
        ("test_mine_p50", "test mine, median of clients", None),
        ("evaluation_seconds", "time of evaluation", None),
        ("personal_p95", "after local steps, 95th percentile of clients", None),
    ],
)
def test_metrics_have_names_and_directions(key: str, name: str, better: str | None):
    assert (metric(key).name, metric(key).better) == (name, better)
    assert metric(key).group != "Other"
