"""The papers and our own studies: every experiment as data, run by `driftless reproduce`, with a verdict for every
claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from driftless.errors import unknown
from driftless.papers.adabest import ADABEST
from driftless.papers.fedgbo import FEDGBO
from driftless.papers.ghbm import GHBM
from driftless.papers.guide import GUIDE
from driftless.papers.large_cohort import LARGE_COHORT
from driftless.reproduce.experiment import Experiment, Paper

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (ADABEST, FEDGBO, GHBM, LARGE_COHORT)}
COLLECTIONS: dict[str, Paper] = {**PAPERS, GUIDE.name: GUIDE}
"""All that can be run: the papers, and our own studies."""
ALL = "all"
VERDICTS_FILE = Path(__file__).with_name("verdicts.json")
"""The verdicts of the results in docs/papers; written by `driftless reproduce --publish docs/papers`."""
GUIDE_VERDICTS_FILE = Path(__file__).with_name("guide_verdicts.json")
"""The same of our own studies, which do not count among the papers' claims."""


def chosen(names: Sequence[str]) -> list[tuple[Paper, Experiment]]:
    """ "adabest" is all experiments of the paper, "adabest/figure-1" is one, "all" is all papers."""
    found: list[tuple[Paper, Experiment]] = []
    for name in PAPERS if ALL in names else names:
        paper, slash, experiment = name.partition("/")
        if paper not in COLLECTIONS:
            raise unknown("paper", paper, [*COLLECTIONS, ALL])
        of = {one.name: one for one in COLLECTIONS[paper].experiments}
        if slash and experiment not in of:
            raise unknown(f"experiment of paper '{paper}'", experiment, of)
        found += [(COLLECTIONS[paper], one) for one in ([of[experiment]] if slash else of.values())]
    return found


__all__ = ["COLLECTIONS", "GUIDE", "GUIDE_VERDICTS_FILE", "PAPERS", "VERDICTS_FILE", "Experiment", "Paper", "chosen"]
