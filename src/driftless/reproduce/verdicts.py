"""Published results, and their summary: the verdict of every claim.

A folder of pages holds the results, RESULTS/PAPER/EXPERIMENT.json. The package holds only the summary that `driftless
list papers` shows. A test asserts that it is the summary of the results in docs/papers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from driftless.reproduce.experiment import Experiment, Kind, Paper, Scale, Verdict
from driftless.runs.files import write_json

RESULTS = "results"


class Judged(TypedDict):
    verdict: Verdict
    kind: Kind


class ExperimentVerdicts(TypedDict):
    scale: Scale
    claims: dict[str, Judged]
    """By the name of the claim."""


Verdicts = Mapping[str, Mapping[str, ExperimentVerdicts]]
"""Paper -> experiment."""


def result_file(paper: str, experiment: str, docs: Path) -> Path:
    return docs / RESULTS / paper / f"{experiment}.json"


def stored_result(paper: Paper, experiment: Experiment, docs: Path) -> Mapping[str, Any] | None:
    """What was published of the experiment, if anything."""
    file = result_file(paper.name, experiment.name, docs)
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def write_stored_result(record: Mapping[str, Any], docs: Path) -> None:
    file = result_file(record["paper"], record["experiment"], docs)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, record)


def summarise(papers: Iterable[Paper], docs: Path) -> Verdicts:
    found: dict[str, dict[str, ExperimentVerdicts]] = {}
    for paper in papers:
        for one in paper.experiments:
            if stored := stored_result(paper, one, docs):
                claims: dict[str, Judged] = {
                    claim["name"]: {"verdict": claim["verdict"], "kind": claim["kind"]} for claim in stored["claims"]
                }
                found.setdefault(paper.name, {})[one.name] = {"scale": stored["scale"], "claims": claims}
    return found


def read_summary(file: Path) -> Verdicts:
    return json.loads(file.read_text(encoding="utf-8"))


def refresh_summary(papers: Iterable[Paper], docs: Path, file: Path) -> bool:
    """Write the package's summary anew if `docs` is the docs/papers of the source checkout that the package is in.

    An installed package is never written to.
    """
    in_checkout = docs.resolve() == file.resolve().parents[3] / "docs" / "papers"
    if in_checkout:
        write_json(file, summarise(papers, docs))
    return in_checkout
