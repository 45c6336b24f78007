"""Figures 20-24: how much faster larger cohorts are."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.large_cohort.measures import (
    ROUNDS_TO,
    by_cohort,
    capped_rounds,
    cohort_size,
    neighbours,
    target_of,
    tasks_of,
)
from driftless.papers.large_cohort.settings import COMPARED, paper_setup, small_setup
from driftless.reproduce.checks import Check, below
from driftless.reproduce.experiment import Claim, Experiment
from driftless.reproduce.figure import sweep
from driftless.reproduce.outcome import Outcome


def sublinear(outcome: Outcome) -> Iterable[Check]:
    """Rounds that the reference needs, over those of the largest cohort; linear would be the ratio of the cohorts."""
    for data, task in tasks_of(outcome):
        for name in outcome.places("algorithm", data=data):
            start = outcome.one(data=data, algorithm=name, cohort=task.reference)
            end = by_cohort(outcome, data=data, algorithm=name)[-1]
            ratio = cohort_size(end) / task.reference
            what = f"{data}, {name}: speed-up over the ratio of the cohorts"
            yield below(what, capped_rounds(start) / capped_rounds(end) / ratio, 1.0)


def mostly_faster(outcome: Outcome) -> Iterable[Check]:
    for name in outcome.places("algorithm"):
        for what, one, other in neighbours(outcome, str(name)):
            yield below(f"{what}: rounds to {100 * target_of(one):g} %", capped_rounds(other), capped_rounds(one))


FIGURES_20_24 = Experiment(
    name="figures-20-24",
    title="How much faster larger cohorts are",
    where="Figures 20-24, appendix B.3",
    about="Rounds until a test accuracy is reached, over the cohort size, for five algorithms.",
    paper=paper_setup(*COMPARED),
    small=small_setup(*COMPARED),
    measure=ROUNDS_TO,
    columns="cohort",
    claims=(
        Claim(
            "sublinear",
            "The speed-up is not linear in the cohort size.",
            "On average over tasks and algorithms, the rounds of M = 50 (small scale: 20) over those of the largest "
            "cohort (all rounds where the accuracy is never reached) are less than the ratio of the two cohort sizes.",
            sublinear,
            "average",
            paper='not linear in "just about all cases" (B.3); drawn',
        ),
        Claim(
            "faster",
            "A larger cohort nearly always needs fewer rounds.",
            "On average over tasks, algorithms and steps from a cohort size to the next, the rounds to the task's "
            "accuracy fall.",
            mostly_faster,
            "average",
            paper='"generally always leads to a reduction" (B.3); drawn',
        ),
    ),
    figure=lambda outcome: sweep(outcome, "cohort", ROUNDS_TO, by="data", log_x=True),
)  # fmt: skip
