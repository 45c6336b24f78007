"""What holds for the experiments of every paper."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from driftless.errors import InputError
from driftless.papers import PAPERS, VERDICTS_FILE, Paper, chosen
from driftless.reproduce.pages import papers_table
from driftless.reproduce.runner import plan
from driftless.reproduce.verdicts import read_summary


def test_a_paper_or_an_experiment_that_does_not_exist_is_named_with_the_nearest():
    assert [one.name for _, one in chosen(["adabest/figure-1"])] == ["figure-1"]
    assert len(chosen(["adabest"])) == len(PAPERS["adabest"].experiments)
    with pytest.raises(InputError, match="adabest"):
        chosen(["adabset"])
    with pytest.raises(InputError, match="figure-1"):
        chosen(["adabest/figur-1"])


@pytest.mark.parametrize("paper", PAPERS.values(), ids=list(PAPERS))
def test_the_settings_of_every_cell_at_every_scale_are_valid(paper: Paper, tmp_path: Path):
    for one in paper.experiments:
        for scale in ("paper", "small"):
            setup = one.setup(scale)
            if setup:
                assert len(plan(setup.cells, tmp_path, range(1))) == sum(len(c.candidates) for c in setup.cells)
                assert len({tuple(c.at.items()) for c in setup.cells}) == len(setup.cells)


@pytest.mark.parametrize("paper", PAPERS.values(), ids=list(PAPERS))
def test_what_the_paper_says_stands_beside_every_claim_that_is_no_identity(paper: Paper):
    for one in paper.experiments:
        prints_numbers = any(cell.published for cell in one.paper.cells)
        for claim in one.claims:
            assert claim.paper or prints_numbers or (claim.kind or one.kind) == "identity", f"{one.name}: {claim.name}"


def test_the_list_of_papers_shows_whole_names_in_80_columns():
    console = Console(width=80)
    with console.capture() as shown:
        console.print(papers_table(PAPERS.values(), read_summary(VERDICTS_FILE)))
    words = shown.get().split()
    assert {f"{paper.name}/{one.name}" for paper in PAPERS.values() for one in paper.experiments} < set(words)
