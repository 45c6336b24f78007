"""Planning, judging and documenting experiments, on an experiment made for the purpose."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from driftless.errors import InputError
from driftless.papers import chosen
from driftless.reproduce import budget, index_page, pages, strength
from driftless.reproduce import plan as planning
from driftless.reproduce.checks import Check, above, exact
from driftless.reproduce.experiment import (
    Cell,
    Claim,
    Experiment,
    Number,
    Paper,
    Setup,
    smoke_cohort,
    smoke_settings,
)
from driftless.reproduce.judge import judge
from driftless.reproduce.outcome import FINAL_ACCURACY, Measure, Missing, Outcome, mean_of, rivals
from driftless.reproduce.runner import (
    RULES,
    check_publishable,
    choose,
    is_played,
    look,
    missing_data,
    plan,
    record,
    reproduce,
    total_rounds,
)
from driftless.reproduce.verdicts import write_stored_result

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
        yield above(f"{one.label}: accuracy", outcome.measured(one), 10.0, unit=" %")


SEARCHED = Cell(
    {"algorithm": "fedavg", "alpha": 0.1}, {**TINY, "algorithm.name": "fedavg"}, grid={"local.lr": (1e-6, 0.5)}
)
CLAIM = Claim("learns", "Something is learnt.", "Every accuracy exceeds 10 %.", better_than_chance)
EXPERIMENT = Experiment(
    name="table-1", title="A table", where="Table 1, section 2", about="Two algorithms.",
    paper=Setup((cell("fedavg", **{"run.rounds": 3}), cell("scaffold")), seeds=5),
    small=Setup((cell("fedavg"), cell("scaffold"), SEARCHED), seeds=2, most_seeds=4, reduced="Nearly everything."),
    measure=FINAL_ACCURACY, claims=(CLAIM,),
)  # fmt: skip
PAPER = Paper("example", "An example", "Somebody, somewhere.", (EXPERIMENT,))


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def done(output: Path):
    return reproduce(PAPER, EXPERIMENT, "small", output, jobs=1)


def test_an_experiment_is_run_measured_and_judged_seed_after_seed(done):
    assert done.seeds in (3, 4)  # two seeds cannot decide it, at the error that three looks allow
    assert [len(one.runs) for one in done.outcome.results] == [done.seeds] * 3
    (finding,) = done.findings
    assert finding.verdict == "supported"
    assert len(finding.checks) == 3
    means = [mean_of(FINAL_ACCURACY(one)) for one in done.outcome.results]
    assert all(10 < mean <= 100 for mean in means)


def test_what_ran_before_is_not_run_again(done, output: Path):
    before = {file: file.stat().st_mtime_ns for file in output.glob("runs/*/metrics.jsonl")}
    again = reproduce(PAPER, EXPERIMENT, "small", output, jobs=1)
    assert {file: file.stat().st_mtime_ns for file in output.glob("runs/*/metrics.jsonl")} == before
    assert record(again)["cells"] == record(done)["cells"]


def test_runs_that_have_ended_keep_their_model_and_no_checkpoints(done, output: Path):
    assert len(list(output.glob("runs/*/model.safetensors"))) == len(list(output.glob("runs/*")))
    assert not list(output.glob("runs/*/checkpoint"))


def test_experiments_share_runs_of_equal_settings(output: Path):
    first, second = plan(EXPERIMENT.small.cells, output, range(2)), plan((cell("fedavg"),), output, range(2))
    assert {one.folder for one in second} < {one.folder for one in first}
    assert total_rounds(first + second) == total_rounds(first) == 12


def test_a_grid_keeps_its_best_point(done):
    assert done.outcome.one(alpha=0.1).settings == {"local.lr": 0.5}


def test_a_grid_may_be_decided_by_another_measure(done, output: Path):
    planned = plan((SEARCHED,), output, range(2))
    worst = Measure("the reverse", lambda result: result.final(), better="low")
    assert choose(replace(EXPERIMENT, selection=worst), planned)["local.lr"] == 1e-6


def test_a_grid_is_searched_with_its_seeds_only(tmp_path: Path):
    small = Setup((SEARCHED,), seeds=2, grid_seeds=1)
    done = look(PAPER, replace(EXPERIMENT, small=small), "small", tmp_path, 2, jobs=1)
    assert len(done.outcome.results[0].runs) == 2
    assert len(list((tmp_path / "runs").iterdir())) == 3  # two points with one seed, the better one with another


def test_what_is_planned_counts_the_runs_that_will_be_played(tmp_path: Path):
    small = Setup((SEARCHED, cell("scaffold")), seeds=3, grid_seeds=1)
    experiment = replace(EXPERIMENT, small=small)
    planned = planning.as_json(experiment, "small", tmp_path)
    look(PAPER, experiment, "small", tmp_path, 3, jobs=1)
    assert planned["runs"] == len(list((tmp_path / "runs").iterdir())) == 7


def test_a_claim_about_a_cell_that_is_not_run_is_not_tested():
    def checks(outcome: Outcome) -> Iterable[Check]:
        yield exact("", bool(outcome.one(algorithm="mime")))

    finding = judge(Claim("c", "", "", checks), Outcome(EXPERIMENT, EXPERIMENT.paper), "small")
    assert finding.verdict == "not tested"
    assert "mime" in finding.reason


def test_a_claim_without_checks_is_not_tested():
    assert judge(Claim("c", "", "", lambda outcome: ()), Outcome(EXPERIMENT, EXPERIMENT.paper), "small").verdict == (
        "not tested"
    )


def test_the_smoke_scale_never_gives_a_verdict(done):
    assert judge(CLAIM, done.outcome, "smoke").verdict == "not tested"


def test_rivals_are_compared_within_each_setting(done):
    (check,) = rivals(done.outcome, "fedavg")
    assert "alpha 0.3: fedavg against scaffold" in check.text
    one, other = (FINAL_ACCURACY(done.outcome.one(algorithm=name, alpha=0.3)) for name in ("fedavg", "scaffold"))
    assert check.differences.tolist() == (one - other).tolist()
    (with_slack,) = rivals(done.outcome, "fedavg", slack=2)
    assert with_slack.limit == -2
    assert not list(rivals(done.outcome, "fedavg", but=["scaffold"]))
    with pytest.raises(Missing):
        done.outcome.one(alpha=0.3)


def test_the_papers_numbers_are_compared_as_ours_are(done):
    learns = judge(CLAIM, done.outcome, "small")
    assert learns.paper == "+80.5 points (more than 10)".replace(" (more than 10)", "")
    assert record(done)["claims"][0]["paper"] == learns.paper


def test_reaching_a_target_counts_rounds_and_never_is_infinite(done):
    result = done.outcome.one(algorithm="fedavg", alpha=0.3)
    assert all(1 <= rounds <= 2 for rounds in result.reach(0.01))
    assert np.isinf(result.reach(1.1)).all()
    assert (result.reach(0.01, axis="examples") > 100).all()


def test_a_measure_that_is_not_a_number_loses():
    assert FINAL_ACCURACY.is_better(1.0, math.nan)
    assert not FINAL_ACCURACY.is_better(math.nan, 1.0)
    assert math.isnan(mean_of(np.array([math.nan])))


def test_absent_data_make_an_experiment_not_tested(output: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DRIFTLESS_OFFLINE", "1")
    monkeypatch.setenv("DRIFTLESS_CACHE", str(tmp_path))
    monkeypatch.delenv("DRIFTLESS_DATA", raising=False)
    letters = replace(cell("fedavg"), settings={**TINY, "data.name": "emnist-l"})
    elsewhere = replace(EXPERIMENT, small=Setup((letters,), reduced="."))
    assert list(missing_data(elsewhere.small)) == ["emnist-l"]
    (finding,) = reproduce(PAPER, elsewhere, "small", output).findings
    assert finding.verdict == "not tested"
    assert "emnist" in finding.reason


def test_cells_whose_data_are_here_are_run_without_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DRIFTLESS_OFFLINE", "1")
    monkeypatch.setenv("DRIFTLESS_CACHE", str(tmp_path))
    monkeypatch.delenv("DRIFTLESS_DATA", raising=False)
    letters = Cell({"algorithm": "fedavg", "alpha": 1.0}, {**TINY, "data.name": "emnist-l"})
    both = replace(EXPERIMENT, small=Setup((cell("fedavg"), letters), reduced="."))
    done = look(PAPER, both, "small", tmp_path, 1, jobs=1)
    assert [one.cell.at["alpha"] for one in done.outcome.results] == [0.3]


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


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are published from commits; the tests run on whatever is in the checkout."""
    monkeypatch.setattr("driftless.reproduce.runner.commit", lambda: "0123456789ab")
    monkeypatch.setattr("driftless.reproduce.runner.run_commits", lambda outcome: ["0123456789ab"])


@pytest.mark.usefixtures("committed")
def test_publishing_writes_the_page_with_numbers_verdicts_and_command(done, tmp_path: Path):
    pages.publish(done, tmp_path / "docs")
    page = (tmp_path / "docs" / "example.md").read_text()
    assert "- **Experiments**: 1 claim: 1 supported." in page
    assert "driftless reproduce example/table-1 --scale small" in page
    assert "[90.5]" in page, "the published number is beside ours"
    assert "Nearly everything." in page
    assert "Every accuracy exceeds 10 %." in page
    stored = json.loads((tmp_path / "docs" / "results" / "example" / "table-1.json").read_text())
    (claim,) = stored["claims"]
    assert claim["verdict"] == "supported"
    assert f"| Something is learnt. | +80.5 points | {claim['ours']} | **supported** |" in page
    assert f"{stored['cells'][0]['ours'][0]:.2f}" in page
    assert len(stored["cells"][0]["each"]) == stored["seeds"]


def test_a_page_says_what_the_paper_says_before_anything_was_run():
    one = replace(EXPERIMENT, claims=(replace(CLAIM, paper="much is learnt (drawn)"),))
    row = "| 1 | Something is learnt. | much is learnt (drawn) |  | not tested yet |  |"
    assert row in pages.claims_lines(one, None)


def test_what_was_not_tested_has_no_strength():
    one = {"name": "learns", "verdict": "not tested", "reason": "no data", "paper": "", "ours": "", "strength": "all"}
    assert "| 1 | Something is learnt. |  |  | **not tested** |  |" in pages.claims_lines(EXPERIMENT, {"claims": [one]})


def test_a_page_says_a_long_reduction_once():
    common = "Smaller in every way. " * 10
    first, second = (
        replace(EXPERIMENT, name=name, small=replace(EXPERIMENT.small, reduced=reduced))
        for name, reduced in (("one", common), ("two", f"{common}And one seed."))
    )
    paper = replace(PAPER, experiments=(first, second))
    assert pages.reduced_text(paper, first, "small") == common
    assert pages.reduced_text(paper, second, "small") == "As in [Table 1](#table-1-a-table). And one seed."


def test_the_index_lists_refuted_claims_with_links(done, tmp_path: Path):
    stored = record(done)
    write_stored_result(stored, tmp_path)
    assert list(index_page.refuted_claims(PAPER, tmp_path)) == []
    refuted = {**stored["claims"][0], "verdict": "refuted"}
    write_stored_result({**stored, "claims": [refuted]}, tmp_path)
    index_page.write_index([PAPER], tmp_path)
    row = "| [example, Table 1](example.md#table-1-a-table) | Something is learnt. | +80.5 points | "
    assert row in (tmp_path / "README.md").read_text()


def test_a_page_names_what_was_chosen_at_an_end_of_its_grid():
    cells = [replace(cell(name), grid={"local.lr": (0.1, 0.3, 1.0), "algorithm.mu": (0, 1)})
             for name in ("fedavg", "scaffold")]  # fmt: skip
    stored = [
        {"at": one.at, "chosen": {"local.lr": lr, "algorithm.mu": 0}} for one, lr in zip(cells, (0.3, 1.0), strict=True)
    ]
    assert pages.edges_text(cells, stored) == (
        "At an end of its grid, beyond which a better value may lie, are 1 of 2 chosen: `local.lr` = 1 of 0.1, 0.3, 1 "
        "(scaffold)."
    )
    assert pages.edges_text(cells[:1], stored[:1]) == ""


@pytest.mark.parametrize("commit", ["0123456789ab+", None])
def test_nothing_is_published_from_source_that_is_not_committed(done, commit, monkeypatch, tmp_path: Path):
    monkeypatch.setattr("driftless.reproduce.runner.commit", lambda: commit)
    with pytest.raises(InputError, match="not a commit"):
        check_publishable(done)
    with pytest.raises(InputError, match="Commit"):
        pages.publish(done, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("committed")
def test_a_rule_that_is_changed_after_the_first_run_is_named(done, output: Path):
    assert record(done)["changed_rules"] == []
    assert json.loads((done.folder / RULES).read_text())["rules"] == {"learns": "Every accuracy exceeds 10 %. (all)"}
    other = replace(EXPERIMENT, claims=(replace(CLAIM, rule="Every accuracy exceeds 20 %."),))
    assert record(look(PAPER, other, "small", output, 2, jobs=1))["changed_rules"] == ["learns"]


def test_what_is_left_of_a_budget_is_known_without_playing(output: Path, done, tmp_path: Path):
    setup = EXPERIMENT.small
    assert is_played(EXPERIMENT, setup, output, 2)
    assert not is_played(EXPERIMENT, setup, tmp_path, 2)
    assert budget.open_experiments([(PAPER, EXPERIMENT)], "small", output, 1) == []
    (left,) = budget.open_experiments([(PAPER, EXPERIMENT)], "small", tmp_path, 1)
    assert (left.next_seeds, left.undecided) == (2, 1)


def test_the_most_undecided_experiment_is_worked_on_first(tmp_path: Path):
    tiny = Setup((cell("fedavg"),), seeds=1, reduced=".")
    one = replace(EXPERIMENT, name="one", small=tiny)
    three = replace(EXPERIMENT, name="three", small=tiny, claims=tuple(replace(CLAIM, name=f"{i}") for i in range(3)))
    order: list[str] = []

    def announced(now: budget.Standing):
        order.append(now.experiment.name)
        return lambda done: None

    list(budget.work_down([(PAPER, one), (PAPER, three)], "small", tmp_path, 1, announced))
    assert order == ["three", "one"]


def test_what_was_decided_before_is_there_to_be_published(output: Path, done):
    def announced(now: budget.Standing):
        raise AssertionError(f"{now.title} is played again")

    (again,) = budget.work_down([(PAPER, EXPERIMENT)], "small", output, 1, announced)
    assert [finding.verdict for finding in again.findings] == [finding.verdict for finding in done.findings]


ENDLESS = """
import pathlib, time
from driftless.cli.reproduce import run_within
from driftless.reproduce import budget

budget.work_down = lambda *arguments: iter(lambda: time.sleep(600), None)
run_within("0.5s", [], "small", pathlib.Path(), None, 1, False)
"""


def test_a_budget_that_is_spent_says_so_and_is_no_error():
    ended = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "the budget of 0.5s is spent; the same command continues\n"


@pytest.mark.parametrize(
    ("text", "seconds"), [("3h", 10800), ("90min", 5400), ("1.5 h", 5400), ("20s", 20), ("2m", 120)]
)
def test_a_budget_is_a_time_with_a_unit(text: str, seconds: float):
    assert budget.seconds(text) == seconds


@pytest.mark.parametrize("text", ["3", "h", "three hours", "-1h", "0s"])
def test_another_budget_is_refused(text: str):
    with pytest.raises(InputError, match="3h"):
        budget.seconds(text)


def test_a_budget_that_is_spent_ends_the_work_and_the_next_call_continues(tmp_path: Path):
    long = {"run.rounds": 100_000, "run.evaluate_every": 1000, "run.checkpoint_every": 0}
    slow = replace(EXPERIMENT, small=Setup((cell("fedavg", **long),), seeds=1, reduced="."))
    for _ in range(2):
        with pytest.raises(budget.Spent), budget.at_most(2.0):
            list(budget.work_down([(PAPER, slow)], "small", tmp_path, 1, lambda now: lambda done: None))
    (run,) = (tmp_path / "runs").iterdir()
    rounds = [json.loads(line)["round"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rounds == list(range(1, len(rounds) + 1))
    assert not (run / "result.json").exists()


def test_a_plan_shows_every_setting_beside_the_papers(output: Path):
    found = planning.as_json(EXPERIMENT, "small", output)
    assert found["settings"]["run.rounds"] == {"paper": [3, 2], "here": [2], "same": False, "stated": True}
    assert found["settings"]["run.cohort"] == {"paper": [3], "here": [3], "same": True, "stated": True}
    assert found["settings"]["local.lr"]["here"] == [0.5, 1e-6]
    assert found["seeds"] == [2, 4]
    assert found["expected_seconds"] > 0
    assert json.loads(json.dumps(found)) == found
    assert "expected: about" in planning.summary(found)


def test_the_plan_of_what_is_computed_speaks_of_no_runs(tmp_path: Path):
    ((_, computed),) = chosen(["ghbm/corollary-4-5"])
    found = planning.as_json(computed, "small", tmp_path)
    assert planning.summary(found).startswith("small: computed, without runs and data")


def test_fewer_than_a_twentieth_of_the_rounds_test_nothing():
    paper = Setup((cell("fedavg", **{"run.rounds": 2000}),), seeds=5)
    short, long = (cell("fedavg", **{"run.rounds": rounds}) for rounds in (8, 200))
    one = replace(EXPERIMENT, paper=paper)
    assert strength.is_too_small(short, one)
    assert not strength.is_too_small(long, one)
    stand_in = replace(long, settings={**long.settings, "data.name": "mnist", "run.rounds": 60})
    assert strength.is_too_small(stand_in, one)
    seen = Outcome(one, replace(paper, cells=(short,)))
    assert "8 of the paper's 2,000 rounds" in judge(CLAIM, seen, "small").reason


def test_the_strength_of_a_verdict_is_its_distance_from_the_paper():
    paper = Setup((cell("fedavg", **{"run.rounds": 1000}),), seeds=5)
    one = replace(EXPERIMENT, paper=paper, small=Setup((cell("fedavg", **{"run.rounds": 200}),), reduced="."))
    assert strength.strength(one, CLAIM, "small") == "reduced, 5x fewer rounds"
    assert strength.strength(one, CLAIM, "paper") == "paper scale"
    assert strength.strength(one, replace(CLAIM, kind="identity"), "small") == "identity or proof"
    assert strength.strength(replace(one, kind="count"), CLAIM, "small") == "exact count"
    mnist = cell("fedavg", **{"run.rounds": 200, "data.name": "mnist"})
    assert strength.strength(replace(one, small=Setup((mnist,))), CLAIM, "small") == "stand-in data, 5x fewer rounds"
