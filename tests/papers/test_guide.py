"""The studies behind the guide: they run, are judged like the papers' experiments, and do not count among them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftless.algorithms import ALGORITHMS
from driftless.cost import vectors
from driftless.papers import COLLECTIONS, GUIDE, GUIDE_VERDICTS_FILE, PAPERS, Experiment, chosen
from driftless.papers.guide.measures import HELD_OUT, TEST, last_quarter, picked
from driftless.papers.guide.settings import METHODS, STATELESS, WITH_STATE
from driftless.papers.guide.upload import BUDGET, affordable
from driftless.reproduce import verdicts
from driftless.reproduce.checks import from_json
from driftless.reproduce.experiment import Claim
from driftless.reproduce.judge import SMOKE_REASON, judge, verdict_of
from driftless.reproduce.outcome import Outcome, Result
from driftless.reproduce.pages import page
from driftless.reproduce.runner import plan, reproduce

DOCS = Path(__file__).parents[2] / "docs" / "papers"
NAMES = [one.name for one in GUIDE.experiments]


@pytest.fixture(scope="session")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: studies share runs."""
    return tmp_path_factory.mktemp("guide")


def test_the_guide_is_chosen_by_name_and_is_not_one_of_the_papers():
    assert [one.name for _, one in chosen(["guide"])] == NAMES
    assert chosen(["guide/labels"]) == [(GUIDE, GUIDE.experiments[0])]
    assert "guide" not in PAPERS
    assert all(paper is not GUIDE for paper, _ in chosen(["all"]))
    assert {*COLLECTIONS} == {*PAPERS, "guide"}


def made_up(experiment: Experiment, gain: float) -> Outcome:
    """Accuracies of eight seeds in which every algorithm is so much ahead of FedAvg, whatever else the setting is."""
    assert experiment.small is not None
    noise = np.random.default_rng(0)
    results = (
        Result(cell, (), printed=80 + gain * (cell.at["algorithm"] != "FedAvg") + 0.1 * noise.standard_normal(8))
        for cell in experiment.small.cells
    )
    return Outcome(experiment, experiment.small, tuple(results))


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("labels", {"harder"}),
        ("participation", {"state-needs-returns"}),
        ("stateless", {"little-lost"}),
        ("privacy", set()),
    ],
)
def test_a_claim_against_fedavg_follows_the_numbers(name: str, left_out: set[str]):
    """What compares settings with each other is left out: the settings are equal here."""
    experiment = GUIDE.experiments[NAMES.index(name)]
    little = {"some-labels", "iid"}
    for claim in experiment.claims:
        better, worse = (judge(claim, made_up(experiment, gain), "small").verdict for gain in (3.0, -3.0))
        if claim.name in little:
            assert (better, worse) == ("refuted", "supported"), claim.name
        elif claim.name not in left_out:
            assert (better, worse) == ("supported", "refuted"), claim.name


def test_who_picks_among_methods_without_state_loses_nothing_if_all_are_alike():
    experiment = GUIDE.experiments[NAMES.index("stateless")]
    assert judge(experiment.claims[0], made_up(experiment, 3.0), "small").verdict == "supported"


@pytest.mark.parametrize("name", ["upload", "sizes", "privacy"])
def test_a_study_runs_at_smoke_scale(name: str, output: Path, monkeypatch: pytest.MonkeyPatch):
    experiment = GUIDE.experiments[NAMES.index(name)]
    monkeypatch.setattr("driftless.reproduce.runner.draw", lambda panels, file: None)
    done = reproduce(GUIDE, experiment, "smoke", output)
    assert done.outcome is not None
    for finding in done.findings:
        assert finding.verdict == "not tested"
        assert finding.reason == SMOKE_REASON
        assert finding.checks
    assert experiment.figure is not None
    assert 1 <= len(list(experiment.figure(done.outcome))) <= 6


def test_names_of_claims_are_unique():
    for one in GUIDE.experiments:
        assert len({claim.name for claim in one.claims}) == len(one.claims), one.name


@pytest.mark.parametrize("experiment", GUIDE.experiments, ids=NAMES)
def test_every_algorithm_of_a_study_is_chosen_from_six_points(experiment: Experiment, tmp_path: Path):
    assert experiment.small is not None
    assert all(len(cell.candidates) == 6 for cell in experiment.small.cells)
    assert len(plan(experiment.small.cells, tmp_path, range(1))) == 6 * len(experiment.small.cells)
    assert all(cell.settings["data.validation"] for cell in experiment.small.cells)


def test_the_methods_are_sorted_by_whether_clients_keep_state():
    for name in (*STATELESS, *WITH_STATE):
        kept = vectors(ALGORITHMS[METHODS[name][0]]()).client
        assert bool(kept) == (name in WITH_STATE), name


class MadeUpRun:
    """Forty rounds of accuracies that grow by one a round."""

    status, played = "finished", 40
    rounds = np.arange(1, 41)

    def __init__(self, vectors: int) -> None:
        self.vectors = vectors

    def column(self, key: str):
        return np.full(40, self.vectors * 704_400.0) if key == "bytes_up" else np.arange(1.0, 41.0)


def test_the_accuracy_for_an_upload_is_that_of_the_rounds_it_pays_for():
    one, two = MadeUpRun(1), MadeUpRun(2)
    assert last_quarter(one, TEST) == np.mean(np.arange(31, 41))
    assert 21 * 704_400 < BUDGET < 22 * 704_400
    assert affordable(one, TEST) == np.mean(np.arange(16, 22))
    assert affordable(two, HELD_OUT) == np.mean(np.arange(8, 11))


def test_the_method_is_picked_on_held_out_clients_in_each_seed(monkeypatch: pytest.MonkeyPatch):
    experiment = GUIDE.experiments[0]
    assert experiment.small is not None
    cells = [one for one in experiment.small.cells if one.at["labels"] == "IID"][:2]
    results = tuple(
        Result(cell, (), printed=np.array(test)) for cell, test in zip(cells, ([1, 2], [3, 4]), strict=True)
    )
    held_out = {id(results[0]): np.array([9.0, 0.0]), id(results[1]): np.array([0.0, np.nan])}
    monkeypatch.setattr("driftless.papers.guide.measures.SELECTION", lambda result: held_out[id(result)])
    outcome = Outcome(experiment, experiment.small, results)
    assert picked(outcome, ("FedAvg", "FedProx"), labels="IID").tolist() == [1, 2]


def test_the_verdicts_of_the_package_and_the_page_are_those_of_the_results_in_the_docs():
    """To mend it: `driftless reproduce guide/... --publish docs/papers` in a checkout, which writes all of them."""
    assert verdicts.read_summary(GUIDE_VERDICTS_FILE) == verdicts.summarise([GUIDE], DOCS)
    assert (DOCS / "guide.md").read_text(encoding="utf-8") == page(GUIDE, DOCS)


def test_a_published_study_comes_from_a_commit_and_its_verdicts_follow_from_its_numbers():
    published = [found for one in GUIDE.experiments if (found := verdicts.stored_result(GUIDE, one, DOCS))]
    assert published
    for stored in published:
        assert not stored["changed_rules"]
        assert not any(commit.endswith("+") for commit in (stored["commit"], *stored["run_commits"]))
        for one in stored["claims"]:
            claim = Claim("", "", "", lambda outcome: (), one["decided_by"])
            assert verdict_of(claim, [from_json(check) for check in one["checks"]], one["error"]) == one["verdict"]


def test_the_page_speaks_of_no_paper():
    text = (DOCS / "guide.md").read_text(encoding="utf-8")
    assert "paper's" not in text
    assert "paper scale" not in text
