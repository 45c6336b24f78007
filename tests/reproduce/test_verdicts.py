"""Results are published with the pages; the package holds their verdicts only."""

from __future__ import annotations

from pathlib import Path

from driftless.papers import PAPERS, VERDICTS_FILE
from driftless.reproduce import verdicts
from driftless.reproduce.checks import from_json
from driftless.reproduce.experiment import Claim
from driftless.reproduce.judge import verdict_of
from driftless.reproduce.pages import page, state_text, summary_text

DOCS = Path(__file__).parents[2] / "docs" / "papers"


def test_the_verdicts_of_the_package_are_those_of_the_results_in_the_docs():
    """To mend it: `driftless reproduce ... --publish docs/papers` in a checkout, which writes both."""
    assert verdicts.read_summary(VERDICTS_FILE) == verdicts.summarise(PAPERS.values(), DOCS)


def test_the_pages_are_those_of_the_results():
    for paper in PAPERS.values():
        assert (DOCS / f"{paper.name}.md").read_text(encoding="utf-8") == page(paper, DOCS)


def test_the_readme_quotes_the_summary_of_the_pages():
    summary = summary_text(PAPERS.values(), verdicts.summarise(PAPERS.values(), DOCS))
    assert summary in (DOCS / "README.md").read_text(encoding="utf-8")
    assert summary in " ".join((DOCS.parents[1] / "README.md").read_text(encoding="utf-8").split())


def test_only_publishing_into_the_docs_of_the_checkout_refreshes_the_summary(tmp_path: Path):
    file = tmp_path / "checkout" / "src" / "driftless" / "papers" / "verdicts.json"
    file.parent.mkdir(parents=True)
    docs = tmp_path / "checkout" / "docs" / "papers"
    assert not verdicts.refresh_summary(PAPERS.values(), tmp_path / "elsewhere", file)
    assert not file.exists()
    assert verdicts.refresh_summary(PAPERS.values(), docs, file)
    assert verdicts.read_summary(file) == {}


def test_a_scale_other_than_small_is_named():
    open_ = {"verdict": "undecided", "kind": "experiment"}
    assert state_text({"scale": "small", "claims": {"a": open_, "b": open_}}) == "2 undecided"
    assert state_text({"scale": "paper", "claims": {"a": open_}}) == "1 undecided (paper scale)"
    assert state_text(None) == "not tested yet"


def test_published_verdicts_follow_from_the_published_numbers():
    """A reader can compute every verdict again from the rows that are published with it."""
    for paper in PAPERS.values():
        for experiment in paper.experiments:
            stored = verdicts.stored_result(paper, experiment, DOCS)
            for one in stored["claims"] if stored else ():
                checks = [from_json(check) for check in one["checks"]]
                if one["verdict"] != "not tested":
                    claim = Claim("", "", "", lambda outcome: (), one["decided_by"])
                    assert verdict_of(claim, checks, one["error"]) == one["verdict"], (
                        f"{experiment.name}: {one['name']}"
                    )


def test_published_results_come_from_commits():
    for paper in PAPERS.values():
        for experiment in paper.experiments:
            if stored := verdicts.stored_result(paper, experiment, DOCS):
                for commit in (stored["commit"], *stored["run_commits"]):
                    assert commit
                    assert not commit.endswith("+")
