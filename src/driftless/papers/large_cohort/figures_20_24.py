"""Figures 20-24: how much faster larger cohorts are."""

from __future__ import annotations

import math
from collections.abc import Iterable

from driftless.papers.large_cohort.measures import ROUNDS_TO, by_cohort, cohort_size, costs_by_cohort, tasks_of
from driftless.papers.large_cohort.settings import COMPARED, paper_setup, small_setup
from driftless.reproduce.experiment import Check, Claim, Experiment
from driftless.reproduce.figure import sweep
from driftless.reproduce.outcome import Outcome, below


def sublinear(outcome: Outcome) -> Iterable[Check]:
    """Rounds that the reference needs, over those of the largest cohort; linear would be the ratio of the cohorts."""
    for data, task in tasks_of(outcome):
        for name in outcome.places("algorithm", data=data):
            start = outcome.one(data=data, algorithm=name, cohort=task.reference)
            end = by_cohort(outcome, data=data, algorithm=name)[-1]
            one, other = ROUNDS_TO(start).mean, ROUNDS_TO(end).mean
            if math.isfinite(one) and math.isfinite(other):
                ratio = cohort_size(end) / task.reference
                yield below(f"{data}, {name}: speed-up against the ratio of the cohorts", one / other, ratio)


def mostly_faster(outcome: Outcome) -> Iterable[Check]:
    for name in outcome.places("algorithm"):
        for data, few, one, many, other in costs_by_cohort(outcome, ROUNDS_TO, str(name)):
            if math.isfinite(one) or math.isfinite(other):
                yield Check(f"{data}, {name}: {other:g} rounds with M = {many}, {one:g} with M = {few}", other <= one)


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
            "For each task and algorithm, the rounds of M = 50 (small scale: 20) over those of the largest cohort are "
            "less than the ratio of the two cohort sizes.",
            sublinear,
        ),
        Claim(
            "faster",
            "A larger cohort nearly always needs fewer rounds.",
            "For each task and algorithm, from each cohort size to the next the rounds to the task's accuracy do not "
            "increase.",
            mostly_faster,
            required_share=0.8,
        ),
    ),
    figure=lambda outcome: sweep(outcome, "cohort", ROUNDS_TO, by="data", log_x=True),
)  # fmt: skip
