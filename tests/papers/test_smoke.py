"""Every experiment of every paper runs, is judged and is drawn at smoke scale."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from driftless.papers import PAPERS, Experiment, Paper
from driftless.reproduce.figure import Panel
from driftless.reproduce.judge import SMOKE_REASON
from driftless.reproduce.runner import reproduce

EXPERIMENTS = [(paper, one) for paper in PAPERS.values() for one in paper.experiments]
RENDERED = [next(one for one in paper.experiments if one.figure) for paper in PAPERS.values()]
NAMES = [f"{paper.name}/{one.name}" for paper, one in EXPERIMENTS]


@pytest.fixture(scope="session")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: experiments share runs."""
    return tmp_path_factory.mktemp("reproduce")


@pytest.fixture(autouse=True)
def drawn_but_seldom_rendered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rendering takes more time than all the rest: only the first figure of each paper is rendered."""
    experiment = request.node.callspec.params.get("experiment") if hasattr(request.node, "callspec") else None
    if experiment not in RENDERED:
        blank = Image.new("RGB", (8, 8))
        monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: blank.save(file, "png"))


@pytest.mark.parametrize(("paper", "experiment"), EXPERIMENTS, ids=NAMES)
def test_an_experiment_runs_at_smoke_scale(paper: Paper, experiment: Experiment, output: Path):
    done = reproduce(paper, experiment, "smoke", output)
    assert done.outcome is not None
    assert [finding.claim for finding in done.findings] == list(experiment.claims)
    for finding in done.findings:
        assert finding.verdict == "not tested"  # two rounds of digits prove nothing
        assert finding.reason == SMOKE_REASON or not finding.checks
    stored = json.loads((done.folder / "result.json").read_text())
    assert len(stored["cells"]) == len(done.outcome.results)
    if experiment.measure and done.outcome.results:
        # A target that is never reached is infinite; what was not measured is not a number.
        assert not all(np.isnan(done.outcome.measured(one)).all() for one in done.outcome.results), (
            "nothing was measured"
        )
    if experiment.figure:
        assert (done.folder / "figure.png").stat().st_size > (1000 if experiment in RENDERED else 0)


def test_names_of_experiments_and_claims_are_unique():
    assert len(set(NAMES)) == len(NAMES)
    for paper, one in EXPERIMENTS:
        names = [claim.name for claim in one.claims]
        assert names, f"{paper.name}/{one.name} claims nothing"
        assert len(set(names)) == len(names), f"{paper.name}/{one.name}"


def test_an_experiment_without_a_small_scale_says_why():
    for paper, one in EXPERIMENTS:
        assert (one.small is None) == bool(one.untestable), f"{paper.name}/{one.name}"


def test_a_small_scale_with_runs_says_what_was_reduced():
    for paper, one in EXPERIMENTS:
        if one.small and one.small.cells and one.small.cells != one.paper.cells:
            assert one.small.reduced, f"{paper.name}/{one.name}"


@pytest.mark.parametrize(("paper", "experiment"), EXPERIMENTS, ids=NAMES)
def test_a_figure_has_at_most_six_panels_and_no_line_of_two_points(paper: Paper, experiment: Experiment, output: Path):
    if experiment.figure is None or experiment.small is None:
        return
    done = reproduce(paper, experiment, "smoke", output)
    assert done.outcome is not None
    panels = list(experiment.figure(done.outcome))
    assert len(panels) <= 6
    for panel in panels:
        for line in panel.lines if isinstance(panel, Panel) and panel.marks else ():
            assert len(line.x) != 2, f"{panel.title}: {line.label}"
