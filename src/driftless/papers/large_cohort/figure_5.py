"""Figure 5: fewer rounds, more examples."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.large_cohort.measures import (
    EXAMPLES_TO,
    accuracy_over,
    capped_rounds,
    log_examples,
    neighbours,
    target_of,
)
from driftless.papers.large_cohort.settings import paper_setup, small_setup
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Claim, Experiment
from driftless.reproduce.figure import Panel
from driftless.reproduce.outcome import Outcome


def rounds_and_examples(outcome: Outcome) -> list[Panel]:
    return [
        *accuracy_over(outcome, "rounds", algorithm="FedAdam"),
        *accuracy_over(outcome, "examples", algorithm="FedAdam"),
    ]


def fewer_rounds(outcome: Outcome) -> Iterable[Check]:
    for what, one, other in neighbours(outcome, "FedAdam"):
        yield below(f"{what}: rounds to {100 * target_of(one):g} %", capped_rounds(other), capped_rounds(one))


def more_examples(outcome: Outcome) -> Iterable[Check]:
    for what, one, other in neighbours(outcome, "FedAdam"):
        yield above(
            f"{what}: log of the examples to {100 * target_of(one):g} %", log_examples(other), log_examples(one)
        )


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
            "On average over tasks and steps from a cohort size to the next, the rounds to the task's accuracy (small "
            "scale: 70 % and 60 %; all rounds where it is never reached) fall.",
            fewer_rounds,
            "average",
            paper='"generally decreases with the cohort size" (section 3.5); drawn',
        ),
        Claim(
            "more-examples",
            "Large cohorts process more examples for the same accuracy.",
            "On average over tasks and steps from a cohort size to the next, the logarithm of the examples to the "
            "task's accuracy rises.",
            more_examples,
            "average",
            paper='"significantly more examples per unit-accuracy" (section 3.5); drawn',
        ),
    ),
    figure=rounds_and_examples,
)  # fmt: skip
