"""Figure 36: cosine between the updates of clients."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.large_cohort.measures import tasks_of
from driftless.papers.large_cohort.settings import paper_setup, reference_only, small_setup
from driftless.papers.large_cohort.update_norms import cosine_panels, orthogonal
from driftless.reproduce.checks import Check, above
from driftless.reproduce.experiment import Claim, Experiment
from driftless.reproduce.intervals import Floats
from driftless.reproduce.outcome import Measure, Outcome, Result


def middle_third(result: Result, key: str) -> Floats:
    """The mean over the middle third of the rounds."""
    return result.per_seed(key, lambda values: values[len(values) // 3 : -(len(values) // 3) or None].mean())


def less_orthogonal(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        one, other = (
            middle_third(outcome.one(data=data, algorithm=name, cohort=task.reference), "cosine")
            for name in ("FedSGD", "FedAvg")
        )
        yield above(f"{data}, cosine in the middle third: FedSGD against FedAvg", one, other)


FIGURE_36 = Experiment(
    name="figure-36",
    title="Cosine between the updates of clients",
    where="Figure 36, appendix B.6.1",
    about="Mean cosine between the updates of all pairs of clients of a cohort of 50, FedAvg and FedSGD.",
    paper=paper_setup("FedAvg", "FedSGD", cohorts=reference_only),
    small=small_setup("FedAvg", "FedSGD", cohorts=reference_only),
    measure=Measure("mean cosine, second half of the rounds", lambda r: r.last("cosine", 0.5), better="low", digits=4),
    claims=(
        Claim(
            "fedavg-zero",
            "After few rounds the cosine is close to zero for FedAvg.",
            "In each task the mean over the second half of the rounds is less than 0.05 in size, on average over the "
            "seeds.",
            orthogonal,
            paper='"close to zero for FedAvg" (B.6.1); drawn',
        ),
        Claim(
            "fedsgd-larger",
            "For FedSGD it is not nearly as small, above all in intermediate rounds.",
            "In each task FedSGD's mean over the middle third of the rounds exceeds FedAvg's.",
            less_orthogonal,
            paper='"not nearly as small for FedSGD" (B.6.1); drawn',
        ),
    ),
    figure=cosine_panels,
)
