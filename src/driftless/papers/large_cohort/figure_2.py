"""Figures 2 and 11-17: diminishing returns of larger cohorts."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.large_cohort.measures import (
    ACCURACY,
    by_cohort,
    cohort_size,
    curve_panels,
    tasks_of,
)
from driftless.papers.large_cohort.settings import STUDIED, paper_setup, small_setup
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Claim, Experiment
from driftless.reproduce.outcome import Outcome


def diminishing(outcome: Outcome) -> Iterable[Check]:
    """The first cohorts bring more than the last ones."""
    for data, task in tasks_of(outcome):
        for name in outcome.places("algorithm", data=data):
            found = {cohort_size(one): ACCURACY(one) for one in by_cohort(outcome, data=data, algorithm=name)}
            first, last = min(found), max(found)
            early, later = found[task.reference] - found[first], found[last] - found[task.reference]
            what = f"{data}, {name}: gain from M = {first} to {task.reference}, then to {last}"
            yield above(what, early, later, unit=" points")


def saturated(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        for name in ("FedAvg", "FedSGD"):
            start = outcome.one(data=data, algorithm=name, cohort=task.reference)
            end = by_cohort(outcome, data=data, algorithm=name)[-1]
            what = f"{data}, {name}: most clients against M = {task.reference}, up to 2 points more"
            yield below(what, ACCURACY(end), ACCURACY(start), by=-2, unit=" %")


FIGURE_2 = Experiment(
    name="figure-2",
    title="Diminishing returns of larger cohorts",
    where="Figures 2 and 11-17, section 3.2 and B.1",
    about="Test accuracy over the rounds for growing cohorts; the main text shows FedAvg and FedSGD, the appendix all "
    "seven algorithms.",
    paper=paper_setup(*STUDIED),
    small=small_setup(*STUDIED),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "diminishing",
            "Convergence improves with the cohort, but less and less.",
            "On average over tasks and algorithms, the gain in accuracy from the smallest cohort to M = 50 (small "
            "scale: from 5 to 20) exceeds the gain from there to the largest.",
            diminishing,
            "average",
            paper='benefits "do not scale linearly with cohort size" (section 3.2); drawn',
        ),
        Claim(
            "saturated",
            "For FedAvg and FedSGD, clients beyond some 50 a round change little or nothing.",
            "On average over the tasks, the accuracy with the largest cohort is less than 2 points above that with M = "
            "50 (small scale: 20).",
            saturated,
            "average",
            paper='a threshold between M = 10 and 50, beyond it "little to no change" (section 3.2)',
        ),
    ),
    figure=curve_panels("FedAvg", "FedSGD", "FedAdam"),
)  # fmt: skip
