"""The papers: every experiment as data, and `driftless reproduce` with a verdict for every claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from driftless.errors import unknown
from driftless.papers.adabest import ADABEST
from driftless.papers.fedgbo import FEDGBO
from driftless.papers.ghbm import GHBM
from driftless.papers.large_cohort import LARGE_COHORT
from driftless.reproduce.experiment import Experiment, Paper

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (ADABEST, FEDGBO, GHBM, LARGE_COHORT)}
ALL = "all"
VERDICTS_FILE = Path(__file__).with_name("verdicts.json")
"""The verdicts of the results in docs/papers; written by `driftless reproduce --publish docs/papers`."""


def chosen(names: Sequence[str]) -> list[tuple[Paper, Experiment]]:
    """ "adabest" is all experiments of the paper, "adabest/figure-1" is one, "all" is everything."""
    found: list[tuple[Paper, Experiment]] = []
    for name in PAPERS if ALL in names else names:
        paper, slash, experiment = name.partition("/")
        if paper not in PAPERS:
            raise unknown("paper", paper, [*PAPERS, ALL])
        of = {one.name: one for one in PAPERS[paper].experiments}
        if slash and experiment not in of:
            raise unknown(f"experiment of paper '{paper}'", experiment, of)
        found += [(PAPERS[paper], one) for one in ([of[experiment]] if slash else of.values())]
    return found


__all__ = ["PAPERS", "VERDICTS_FILE", "Experiment", "Paper", "chosen"]
