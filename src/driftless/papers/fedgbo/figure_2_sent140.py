"""Figure 2: Sent140 with 50 local steps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

from driftless.papers.fedgbo.measures import BEST_ACCURACY
from driftless.papers.fedgbo.rows import figure_row, little_benefit
from driftless.papers.fedgbo.settings import OPTIMISERS
from driftless.reproduce.experiment import Check, Claim
from driftless.reproduce.outcome import Outcome, Result


def interval(result: Result) -> tuple[float, float]:
    """95 % confidence interval of the mean highest accuracy, as drawn by the authors."""
    mean, std = BEST_ACCURACY(result)
    half = 1.96 * (std or 0.0) / math.sqrt(len(result.runs))
    return mean - half, mean + half


def intervals_overlap(outcome: Outcome) -> Iterable[Check]:
    for optimiser in OPTIMISERS if outcome.setup.seeds > 1 else ():
        for one, other in combinations(outcome.pick(optimiser=optimiser), 2):
            (low, high), (low_2, high_2) = interval(one), interval(other)
            text = f"{one.cell.at['algorithm']} and {other.cell.at['algorithm']}, {optimiser}"
            seen = f"{low:.4g} to {high:.4g} % and {low_2:.4g} to {high_2:.4g} %"
            yield Check(f"{text}: {seen}", low <= high_2 and low_2 <= high)


FIGURE_2_SENT140 = figure_row(
    2,
    "Sent140",
    (
        Claim(
            "no-winner",
            "With 50 local steps the confidence intervals overlap, so that no algorithm can be called the best.",
            "The 95 % intervals of the highest accuracy of each two algorithms with the same optimiser overlap.",
            intervals_overlap,
            required_share=0.9,
        ),
        Claim(
            "sgdm-no-gain",
            "Again SGDm improves little over FedAvg.",
            "The highest accuracy of each algorithm with SGDm is at most one point above FedAvg's.",
            little_benefit("SGDm"),
            required_share=0.75,
        ),
    ),
)
