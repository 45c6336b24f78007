"""Results are published with the pages; the package holds their verdicts only."""

from __future__ import annotations

from pathlib import Path

from driftless.papers import PAPERS, VERDICTS_FILE
from driftless.reproduce import verdicts
from driftless.reproduce.pages import page, state_text

DOCS = Path(__file__).parents[2] / "docs" / "papers"


def test_the_verdicts_of_the_package_are_those_of_the_results_in_the_docs():
    """To mend it: `driftless reproduce ... --publish docs/papers` in a checkout, which writes both."""
    assert verdicts.read_summary(VERDICTS_FILE) == verdicts.summarise(PAPERS.values(), DOCS)


def test_the_pages_are_those_of_the_results():
    for paper in PAPERS.values():
        assert (DOCS / f"{paper.name}.md").read_text(encoding="utf-8") == page(paper, DOCS)


def test_only_publishing_into_the_docs_of_the_checkout_refreshes_the_summary(tmp_path: Path):
    file = tmp_path / "checkout" / "src" / "driftless" / "papers" / "verdicts.json"
    file.parent.mkdir(parents=True)
    docs = tmp_path / "checkout" / "docs" / "papers"
    assert not verdicts.refresh_summary(PAPERS.values(), tmp_path / "elsewhere", file)
    assert not file.exists()
    assert verdicts.refresh_summary(PAPERS.values(), docs, file)
    assert verdicts.read_summary(file) == {}


def test_a_scale_other_than_small_is_named():
    assert state_text({"scale": "small", "verdicts": {"a": "partly", "b": "partly"}}) == "2 partly"
    assert state_text({"scale": "paper", "verdicts": {"a": "reproduced"}}) == "1 reproduced (paper scale)"
    assert state_text(None) == "not run yet"
