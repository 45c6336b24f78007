"""Figure 5: fewer rounds, more examples."""

from __future__ import annotations

import math
from collections.abc import Iterable

from driftless.papers.large_cohort.measures import EXAMPLES_TO, ROUNDS_TO, accuracy_over, costs_by_cohort
from driftless.papers.large_cohort.settings import TASKS, paper_setup, small_setup
from driftless.reproduce.experiment import Check, Claim, Experiment
from driftless.reproduce.figure import Panel
from driftless.reproduce.outcome import Outcome, above


def rounds_and_examples(outcome: Outcome) -> list[Panel]:
    return [
        *accuracy_over(outcome, "rounds", algorithm="FedAdam"),
        *accuracy_over(outcome, "examples", algorithm="FedAdam"),
    ]


def fewer_rounds(outcome: Outcome) -> Iterable[Check]:
    for data, few, one, many, other in costs_by_cohort(outcome, ROUNDS_TO, "FedAdam"):
        text = f"{data}, to {100 * TASKS[data].target:g} %: {other:g} rounds with M = {many}, {one:g} with M = {few}"
        yield Check(text, other <= one and math.isfinite(other))


def more_examples(outcome: Outcome) -> Iterable[Check]:
    for data, few, one, many, other in costs_by_cohort(outcome, EXAMPLES_TO, "FedAdam"):
        if math.isfinite(one) or math.isfinite(other):
            yield above(f"{data}, examples to {100 * TASKS[data].target:g} %: M = {many} against {few}", other, one)


FIGURE_5 = Experiment(
    name="figure-5",
    title="Fewer rounds, more examples",
    where="Figure 5, section 3.5",
    about="Test accuracy of FedAdam over the rounds and over the examples that all clients have processed.",
    paper=paper_setup("FedAdam"),
    small=small_setup("FedAdam"),
    measure=EXAMPLES_TO,
    columns="cohort",
    claims=(
        Claim(
            "fewer-rounds",
            "FedAdam needs fewer rounds to a given accuracy with larger cohorts.",
            "From each cohort size to the next the rounds to the task's accuracy (small scale: 70 % and 60 %) do not "
            "increase.",
            fewer_rounds,
            required_share=0.8,
        ),
        Claim(
            "more-examples",
            "Large cohorts process more examples for the same accuracy.",
            "From each cohort size to the next more examples are needed to the task's accuracy.",
            more_examples,
            required_share=0.8,
        ),
    ),
    figure=rounds_and_examples,
)  # fmt: skip
