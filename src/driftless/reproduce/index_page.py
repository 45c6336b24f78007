"""The page above the papers' pages: how many claims of how many, and which were refuted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from driftless.reproduce.experiment import KINDS, VERDICTS, Paper
from driftless.reproduce.pages import (
    NOT_RUN,
    TITLES,
    anchor,
    by_claim,
    heading,
    markdown,
    paper_text,
    strength_text,
    summary_text,
    tally,
)
from driftless.reproduce.verdicts import stored_result, summarise
from driftless.runs.files import write_atomically

INDEX = (
    "Every experiment of the papers, with a verdict for each claim by a rule that was committed before the run. "
    "Identities, bounds and proofs are checked where they are exact, and costs are counted: these are certain. "
    "Experiments are reduced to what two cores can do, or use other data where the paper's cannot be had; their "
    "verdicts are about the reduced setting, carry an interval, and say how far they are from the paper's. *Not "
    "tested* means that two cores cannot tell, *not tested yet* that an experiment is ready and has not been run. "
    "`driftless list papers` shows the same list, [reproduce](../reproduce.md) says how claims are judged and how to "
    "run an experiment as published."
)

REFUTED = (
    "What did not hold, by the rule of its claim. An identity or a count is refuted as it is printed, often by a "
    "single misprint; an experiment in the setting that its strength names. Each links its section, with the rule and "
    "the comparisons against it."
)


def write_index(papers: Iterable[Paper], docs: Path) -> None:
    papers = list(papers)
    verdicts = summarise(papers, docs)
    lines = ["# The papers, checked", "", INDEX, "", f"**{summary_text(papers, verdicts)}**", ""]
    for kind in KINDS:
        columns = [*VERDICTS, NOT_RUN]
        rows = [(paper, tally(paper, verdicts, kind)) for paper in papers]
        columns = [name for name in columns if any(counts[name] for _, counts in rows)]
        table = [
            [f"[{paper.title}]({paper.name}.md)", str(counts.total()), *(str(counts[name]) for name in columns)]
            for paper, counts in rows
        ]
        lines += [f"## {TITLES[kind]}", "", *markdown([["paper", "claims", *columns], *table]), ""]
    refuted = (row for paper in papers for row in refuted_claims(paper, docs))
    head = ["where", "claim", "paper", "ours", "strength"]
    lines += ["## Refuted", "", REFUTED, "", *markdown([head, *refuted]), ""]
    write_atomically(docs / "README.md", "\n".join(lines).encode())


def refuted_claims(paper: Paper, docs: Path) -> Iterator[list[str]]:
    for experiment in paper.experiments:
        found = by_claim(stored_result(paper, experiment, docs))
        title = f"{paper.name}, {experiment.where.split(',')[0]}"
        for claim in experiment.claims:
            one = found.get(claim.name)
            if one and one["verdict"] == "refuted":
                link = f"[{title}]({paper.name}.md#{anchor(heading(experiment))})"
                yield [link, claim.text, paper_text(claim, one), one["ours"], strength_text(one)]
