"""Planning, judging and documenting experiments, on an experiment made for the purpose."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from driftless.errors import InputError
from driftless.reproduce import pages
from driftless.reproduce.experiment import (
    Cell,
    Check,
    Claim,
    Experiment,
    Number,
    Paper,
    Setup,
    smoke_cohort,
    smoke_settings,
)
from driftless.reproduce.outcome import FINAL_ACCURACY, Measure, Missing, Outcome, number, winner
from driftless.reproduce.runner import judge, missing_data, plan, record, reproduce, results, total_rounds

TINY = {
    "data.clients": 10, "run.rounds": 2, "run.cohort": 3, "local.epochs": 1, "local.batch_size": 20, "local.lr": 0.5,
    "model.name": "logistic", "engine.kind": "single", "run.evaluate_every": 1,
}  # fmt: skip


def cell(algorithm: str, **more: object) -> Cell:
    return Cell(
        {"algorithm": algorithm, "alpha": 0.3}, {**TINY, "algorithm.name": algorithm, **more}, Number(90.5, 0.2)
    )


def better_than_chance(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.results:
        yield Check(f"{one.label}: {outcome.measured(one):.1f}", outcome.measured(one) > 10)


SEARCHED = Cell(
    {"algorithm": "fedavg", "alpha": 0.1}, {**TINY, "algorithm.name": "fedavg"}, grid={"local.lr": (1e-6, 0.5)}
)
CLAIM = Claim("learns", "Something is learnt.", "Every accuracy exceeds 10 %.", better_than_chance)
EXPERIMENT = Experiment(
    name="table-1", title="A table", where="Table 1, section 2", about="Two algorithms.",
    paper=Setup((cell("fedavg", **{"run.rounds": 3}), cell("scaffold")), seeds=5),
    small=Setup((cell("fedavg"), cell("scaffold"), SEARCHED), seeds=2, reduced="Nearly everything."),
    measure=FINAL_ACCURACY, claims=(CLAIM,),
)  # fmt: skip
PAPER = Paper("example", "An example", "Somebody, somewhere.", (EXPERIMENT,))


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def done(output: Path):
    return reproduce(PAPER, EXPERIMENT, "small", output, jobs=1)


def test_an_experiment_is_run_measured_and_judged(done):
    assert [len(one.runs) for one in done.outcome.results] == [2, 2, 2]
    (finding,) = done.findings
    assert finding.verdict == "reproduced"
    assert len(finding.checks) == 3
    means = [FINAL_ACCURACY(one).mean for one in done.outcome.results]
    assert all(10 < mean <= 100 for mean in means)


def test_what_ran_before_is_not_run_again(done, output: Path):
    before = {file: file.stat().st_mtime_ns for file in output.glob("runs/*/metrics.jsonl")}
    again = reproduce(PAPER, EXPERIMENT, "small", output, jobs=1)
    assert {file: file.stat().st_mtime_ns for file in output.glob("runs/*/metrics.jsonl")} == before
    assert record(again)["cells"] == record(done)["cells"]


def test_experiments_share_runs_of_equal_settings(output: Path):
    other = replace(EXPERIMENT, name="figure-2", small=replace(EXPERIMENT.small, cells=(cell("fedavg"),)))
    first, second = plan(EXPERIMENT.small, output), plan(other.small, output)
    assert {one.folder for one in second} < {one.folder for one in first}
    assert total_rounds(first + second) == total_rounds(first) == 12


def test_a_grid_keeps_its_best_point(done):
    assert done.outcome.one(alpha=0.1).settings == {"local.lr": 0.5}


def test_a_grid_may_be_decided_by_another_measure(done, output: Path):
    planned = [one for one in plan(EXPERIMENT.small, output) if one.cell is SEARCHED]
    worst = Measure("the reverse", lambda result: result.final(), better="low")
    (chosen_one,) = results(worst, planned)
    assert chosen_one.settings == {"local.lr": 1e-6}


@pytest.mark.parametrize(
    ("held", "of", "whole", "verdict"),
    [(4, 4, 1.0, "reproduced"), (3, 4, 1.0, "partly"), (3, 4, 0.75, "reproduced"), (2, 4, 1.0, "partly"),
     (1, 4, 1.0, "contradicted"), (0, 1, 0.5, "contradicted"), (0, 0, 1.0, "not testable here")],
)  # fmt: skip
def test_the_verdict_is_the_share_of_checks_that_hold(held: int, of: int, whole: float, verdict: str):
    claim = Claim("c", "", "", lambda outcome: [Check("", place < held) for place in range(of)], whole)
    assert judge(claim, Outcome(EXPERIMENT, EXPERIMENT.paper), "small").verdict == verdict


def test_a_claim_about_a_cell_that_is_not_run_is_not_testable():
    def checks(outcome: Outcome) -> Iterable[Check]:
        yield Check("", bool(outcome.one(algorithm="mime")))

    finding = judge(Claim("c", "", "", checks), Outcome(EXPERIMENT, EXPERIMENT.paper), "small")
    assert finding.verdict == "not testable here"
    assert "mime" in finding.reason


def test_the_smoke_scale_never_gives_a_verdict(done):
    assert judge(CLAIM, done.outcome, "smoke").verdict == "not testable here"


def test_winner_compares_within_each_setting(done):
    score = {str(one.cell.at["algorithm"]): FINAL_ACCURACY(one).mean for one in done.outcome.pick(alpha=0.3)}
    best = max(score, key=lambda name: score[name])
    worst = min(score, key=lambda name: score[name])
    assert [check.holds for check in winner(done.outcome, best)] == [True]
    assert [check.holds for check in winner(done.outcome, worst)] == [score[best] == score[worst]]
    assert [check.holds for check in winner(done.outcome, worst, slack=100)] == [True]
    with pytest.raises(Missing):
        done.outcome.one(alpha=0.3)


def test_reaching_a_target_counts_rounds_and_never_is_infinite(done):
    result = done.outcome.one(algorithm="fedavg", alpha=0.3)
    assert 1 <= result.reach(0.01).mean <= 2
    assert math.isinf(result.reach(1.1).mean)
    assert result.reach(0.01, axis="examples").mean > 100


def test_a_measure_that_is_not_a_number_loses():
    assert FINAL_ACCURACY.is_better(1.0, math.nan)
    assert not FINAL_ACCURACY.is_better(math.nan, 1.0)
    assert math.isnan(number([]).mean)


def test_absent_data_make_an_experiment_not_testable(output: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DRIFTLESS_OFFLINE", "1")
    monkeypatch.setenv("DRIFTLESS_CACHE", str(tmp_path))
    monkeypatch.delenv("DRIFTLESS_DATA", raising=False)
    letters = replace(cell("fedavg"), settings={**TINY, "data.name": "emnist-l"})
    elsewhere = replace(EXPERIMENT, small=Setup((letters,), reduced="."))
    assert "emnist" in missing_data(elsewhere.small)
    (finding,) = reproduce(PAPER, elsewhere, "small", output).findings
    assert finding.verdict == "not testable here"
    assert "emnist" in finding.reason


def test_a_mistake_in_the_settings_is_not_taken_for_absent_data():
    with pytest.raises(InputError, match="clients"):
        missing_data(Setup((replace(cell("fedavg"), settings={**TINY, "data.clients": 0}),)))


def test_the_smoke_form_of_settings_keeps_the_algorithm_and_the_kind_of_cohort():
    settings = {"algorithm.name": "ghbm", "algorithm.tau": 10, "data.name": "cifar10", "data.partition": "pachinko",
                "run.cohort": "cyclic:10", "model.name": "resnet-20", "local.steps": 50}  # fmt: skip
    small = smoke_settings(settings)
    assert small["algorithm.tau"] == 10
    assert (small["data.name"], small["data.partition"], small["run.cohort"]) == ("digits", "iid", "cyclic:5")
    assert small["local.steps"] == 2
    assert smoke_cohort(0.5) == 0.5
    assert smoke_cohort(100) == 4


def test_publishing_writes_the_page_with_numbers_verdicts_and_command(done, tmp_path: Path):
    pages.publish(done, tmp_path / "docs")
    page = (tmp_path / "docs" / "example.md").read_text()
    assert "**1 claim: 1 reproduced.**" in page
    assert "driftless reproduce example/table-1 --scale small" in page
    assert "[90.5]" in page, "the published number is beside ours"
    assert "Nearly everything." in page
    assert "Every accuracy exceeds 10 %." in page
    stored = json.loads((tmp_path / "docs" / "results" / "example" / "table-1.json").read_text())
    assert stored["claims"][0]["verdict"] == "reproduced"
    assert f"{stored['cells'][0]['ours'][0]:.2f}" in page
