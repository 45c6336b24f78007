"""Figure 2: Sent140 with 50 local steps."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from driftless.papers.fedgbo.measures import highest_accuracy
from driftless.papers.fedgbo.rows import figure_row, little_benefit
from driftless.papers.fedgbo.settings import OPTIMISERS
from driftless.reproduce.checks import Check, below
from driftless.reproduce.experiment import Claim
from driftless.reproduce.outcome import Outcome


def none_is_ahead(outcome: Outcome) -> Iterable[Check]:
    for optimiser in OPTIMISERS:
        scores = {str(one.cell.at["algorithm"]): highest_accuracy(one) for one in outcome.pick(optimiser=optimiser)}
        for name, score in scores.items() if len(scores) > 1 else ():
            others = np.mean([other for rival, other in scores.items() if rival != name], axis=0)
            yield below(f"highest accuracy, {name} {optimiser} against the others", score, others, by=-1, unit=" %")


FIGURE_2_SENT140 = figure_row(
    2,
    "Sent140",
    (
        Claim(
            "no-winner",
            "With 50 local steps no algorithm can be called the best: the curves lie within their intervals.",
            "With each optimiser, the highest accuracy of each algorithm is less than one point above the mean of the "
            "other four's.",
            none_is_ahead,
            paper="intervals of five trials overlap “for almost all”, drawn",
        ),
        Claim(
            "sgdm-no-gain",
            "Again SGDm improves little over FedAvg.",
            "The highest accuracy of each algorithm with SGDm is less than one point above FedAvg's.",
            little_benefit("SGDm"),
            paper="“little benefit”, drawn",
        ),
    ),
)
