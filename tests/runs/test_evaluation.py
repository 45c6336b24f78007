"""Metrics in run directories: early stopping, results, values per client and of callbacks, and all of it resumed."""

from __future__ import annotations

import json
import math
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftless import InputError
from driftless.config.build import simulation_of
from driftless.runs.callbacks import Callback
from driftless.runs.directory import StoredRun
from driftless.runs.run import resume as resume_run
from runs.runs import AfterRound, Records, assert_same_run, command, small, start, timeless

HELD_OUT = ["data.validation=4", "data.partition=dirichlet", "data.alpha=0.5"]


def test_metrics_are_in_the_rows_of_a_run_and_its_configuration(tmp_path: Path):
    stored = start(tmp_path / "run", "metrics=f1,auroc", "monitor=f1", *HELD_OUT)
    assert all({"test_f1", "test_auroc", "validation_f1", "test_f1_p5"} <= row.keys() for row in stored.rows)
    assert (stored.config.evaluate.monitor, stored.config.evaluate.mode) == ("test_f1", "max")
    values = [row["test_f1"] for row in stored.rows]
    result = stored.result or {}
    assert (result["monitor"], result["best"]) == ("test_f1", max(values))
    assert result["last"] == pytest.approx(np.mean(values))
    assert result["evaluation_seconds"] == pytest.approx(sum(row["evaluation_seconds"] for row in stored.rows))
    assert result["best_test_accuracy"] == max(row["test_accuracy"] for row in stored.rows)


def test_names_of_metrics_may_be_a_list_in_a_file():
    assert small('metrics=["f1", "auroc"]').config.evaluate.metrics == ["f1", "auroc"]
    assert small("metrics=none").config.evaluate.metrics is None
    with pytest.raises(InputError, match=r"evaluate.metrics must be a text or a list of texts or none, got 3"):
        small("metrics=3")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["metrics=f2x"], "unknown metric 'f2x'"),
        (["metrics=rmse"], "needs targets that are numbers"),
        (["monitor=f1"], "unknown column to monitor 'f1'"),
        (["evaluate.mode=up"], "mode must be one of"),
        (["finetune_steps=3"], r"set data.client_test=0.2"),
        (["metrics=f1", "evaluate_every=0"], "never evaluates"),
        (["data=quadratics", "model=linear", "patience=3"], "have nothing to watch"),
    ],
)
def test_what_cannot_be_measured_is_refused_and_nothing_is_written(tmp_path: Path, settings: list[str], message: str):
    with pytest.raises(InputError, match=message):
        start(tmp_path / "run", *settings)
    assert not (tmp_path / "run").exists()


def test_a_run_stops_at_a_target_of_a_loss(tmp_path: Path):
    whole = start(tmp_path / "whole", "lr=0.5")
    target = sorted(row["test_loss"] for row in whole.rows)[3]
    first = next(row["round"] for row in whole.rows if row["test_loss"] <= target)
    assert 1 < first < 8
    stored = start(tmp_path / "run", "lr=0.5", "monitor=loss", f"target={target}", "stop_at_target=true")
    assert len(stored.rows) == first
    assert (stored.result or {})["reason"].startswith("test loss ")
    assert (stored.result or {})["best"] == min(row["test_loss"] for row in stored.rows)


def test_patience_watches_the_monitored_metric(tmp_path: Path):
    stored = start(tmp_path / "run", "lr=1e-9", "rounds=20", "patience=3", "metrics=perplexity", "monitor=perplexity")
    assert len(stored.rows) < 20
    assert "no better test perplexity than" in (stored.result or {})["reason"]


# ------------------------------------------------------------------------------------------------ values of clients


def cut_after(tmp_path: Path, round: int, *changes: str) -> tuple[Path, Path]:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    start(whole, *changes, callbacks=[AfterRound([round], lambda: shutil.copytree(whole, cut))])
    return whole, cut


def test_the_values_of_clients_are_written_and_read(tmp_path: Path):
    heard = Records()
    stored = start(tmp_path / "run", "metrics=f1,auroc", "rounds=5", *HELD_OUT, callbacks=[heard])
    assert stored.client_metrics.keys() == {"accuracy", "f1", "auroc"}
    for name, values in heard.records[-1].client_metrics.items():
        assert stored.client_metrics[name] == pytest.approx(values, nan_ok=True)
        assert len(values) == 4
    assert json.loads((tmp_path / "run" / "client_metrics.json").read_text())["round"] == 5


def test_a_run_without_test_clients_has_no_values_of_clients(tmp_path: Path):
    stored = start(tmp_path / "run", "rounds=2")
    assert stored.client_metrics == {}
    assert not (tmp_path / "run" / "client_metrics.json").exists()


def test_a_value_that_a_client_does_not_have_is_null_in_the_file(tmp_path: Path):
    """Clients with one class have no AUROC."""
    changes = ["metrics=auroc", "rounds=2", "data.validation=4", "data.partition=shards", "data.shards_per_client=1"]
    stored = start(tmp_path / "run", *changes)
    text = (tmp_path / "run" / "client_metrics.json").read_text(encoding="utf-8")
    assert "null" in text
    assert "NaN" not in text
    assert any(math.isnan(value) for value in stored.client_metrics["auroc"])


@pytest.mark.parametrize(
    "content", ['{"metrics": 3}', '{"metrics": {"f1": 3}}', '{"metrics": {"f1": ["a"]}}', "{}", "["]
)
def test_a_damaged_file_of_the_values_of_clients_is_a_clear_error(tmp_path: Path, content: str):
    (tmp_path / "client_metrics.json").write_text(content)
    with pytest.raises(InputError, match=r"client_metrics\.json"):
        _ = StoredRun(tmp_path).client_metrics


@pytest.mark.parametrize("round", [5, 8])
def test_a_killed_run_is_resumed_to_the_same_metrics_and_values_of_clients(tmp_path: Path, round: int):
    whole, cut = cut_after(tmp_path, round, "metrics=f1", "max_examples=50", *HELD_OUT)
    resume_run(cut)
    assert_same_run(whole, cut)
    assert (whole / "client_metrics.json").read_bytes() == (cut / "client_metrics.json").read_bytes()


@pytest.mark.parametrize("round", [5, 8])
def test_a_killed_run_is_resumed_to_the_same_accuracies_of_the_sent_models(tmp_path: Path, round: int):
    """One client a round, each with a single digit: some rounds are failures, also the first after the checkpoint."""
    changes = ["data.partition=shards", "shards_per_client=1", "cohort=1", "lr=20", "batch_size=none"]
    whole, cut = cut_after(tmp_path, round, *changes, "evaluate.cohort=true", "checkpoint_every=1")
    resume_run(cut)
    assert_same_run(whole, cut)
    rows = StoredRun(whole).rows
    expected = [int(0 < before["cohort_accuracy"] >= 2 * now["cohort_accuracy"]) for before, now in pairwise(rows)]
    assert [row["failure"] for row in rows] == [0, *expected]
    assert set(expected) == {0, 1}


def test_a_run_that_was_killed_before_its_result_has_the_values_of_clients(tmp_path: Path):
    start(tmp_path / "run", "metrics=f1", "rounds=3", *HELD_OUT)
    before = StoredRun(tmp_path / "run").client_metrics
    (tmp_path / "run" / "result.json").unlink()
    assert resume_run(tmp_path / "run").client_metrics == before != {}


def test_the_event_of_a_metric_that_is_not_a_number_comes_once_also_when_the_run_is_resumed(tmp_path, monkeypatch):
    from driftless.engine import metrics

    broken = metrics.METRICS["f1"]._replace(value=lambda scores, labels: math.nan)
    monkeypatch.setitem(metrics.METRICS, "f1", broken)
    whole, cut = cut_after(tmp_path, 5, "metrics=f1")
    resume_run(cut)
    assert_same_run(whole, cut)
    assert sum("metric 'f1' is not a number" in event["what"] for event in StoredRun(whole).events) == 1
    assert "test_f1" not in StoredRun(whole).rows[-1]


# --------------------------------------------------------------------------------------------- values of callbacks


class Adds(Callback):
    def __init__(self, values: dict[Any, Any]) -> None:
        self.values = values

    def on_round(self, record: Any) -> None:
        record.metrics.update(self.values)


class Counts(Callback):
    def on_round(self, record: Any) -> None:
        record.metrics["seen"] = record.round + record.metrics["mine"]


def test_values_that_callbacks_add_are_kept_in_the_rows_and_shown_to_those_that_read(tmp_path: Path):
    heard = Records()
    heard.writes_nothing = True
    stored = start(tmp_path / "run", "rounds=3", callbacks=[heard, Adds({"mine": np.float32(0.5)}), Counts()])
    assert [row["mine"] for row in stored.rows] == [0.5] * 3
    assert [row["seen"] for row in stored.rows] == [1.5, 2.5, 3.5]
    assert [record.metrics["seen"] for record in heard.records] == [1.5, 2.5, 3.5]
    assert (stored.result or {})["final"]["seen"] == 3.5


def test_values_of_callbacks_of_a_resumed_run_are_those_that_were_written(tmp_path: Path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    copy = AfterRound([5], lambda: shutil.copytree(whole, cut))
    start(whole, callbacks=[Adds({"mine": 1.0}), copy])
    resume_run(cut, [Adds({"mine": 2.0})])
    assert [row["mine"] for row in StoredRun(cut).rows] == [1.0] * 3 + [2.0] * 5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mine": "good"}, "Adds has put 'mine': 'good' into record.metrics, which holds numbers"),
        ({"mine": [1.0]}, "which holds numbers by their names"),
        ({3: 1.0}, "which holds numbers by their names"),
        ({"train_loss": 0.0}, "Adds has set 'train_loss' in record.metrics, which is a column of driftless"),
        ({"test_accuracy": 1.0}, "which is a column of driftless; use another name"),
    ],
)
def test_values_that_cannot_be_kept_end_the_run_with_a_clear_message(tmp_path: Path, values: Any, message: str):
    with pytest.raises(InputError, match=message):
        start(tmp_path / "run", "evaluate_every=5", callbacks=[Adds(values)])


def test_values_that_are_not_finite_are_left_out_like_our_own(tmp_path: Path):
    stored = start(tmp_path / "run", "rounds=2", callbacks=[Adds({"mine": math.nan, "other": math.inf})])
    assert not {"mine", "other"} & stored.rows[-1].keys()


# ------------------------------------------------------------------------------------------------------- shown


def test_the_table_of_a_run_shows_what_it_is_judged_by_and_the_time_of_evaluation(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    words = ["run", *("data=digits", "model=logistic", "rounds=2", "metrics=f1", "monitor=f1"), f"output={tmp_path}/r"]
    shown = command(monkeypatch, capsys, *words)
    assert shown.code == 0, shown.err
    assert "test f1" in shown.out
    assert "evaluated in" in shown.out


def test_the_metrics_that_have_names_are_listed(monkeypatch, capsys):
    shown = command(monkeypatch, capsys, "list", "metrics")
    assert shown.code == 0
    assert "balanced-accuracy" in shown.out
    assert "perplexity" in shown.out


def test_the_same_bits_are_trained_with_and_without_metrics(tmp_path: Path):
    start(tmp_path / "with", "metrics=f1", *HELD_OUT)
    start(tmp_path / "without", *HELD_OUT)
    rows, plain = StoredRun(tmp_path / "with").rows, StoredRun(tmp_path / "without").rows
    for row, other in zip(rows, plain, strict=True):
        assert {k: row[k] for k in other if "seconds" not in k} == {
            k: v for k, v in other.items() if "seconds" not in k
        }
    assert timeless(tmp_path / "with" / "events.jsonl") == timeless(tmp_path / "without" / "events.jsonl")


def test_a_subset_of_the_test_set_is_the_same_when_the_run_is_described_again():
    one, two = (simulation_of(small("max_examples=30").config).evaluation.data["test"][1] for _ in range(2))
    assert len(one) == 30
    assert one.tolist() == two.tolist()
