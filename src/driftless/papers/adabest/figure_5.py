"""Figure 5: the instability is not over-fitting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from driftless.papers.adabest.figure_1 import FIGURE_1
from driftless.papers.adabest.stability import for_each_model
from driftless.reproduce.experiment import Check, Claim, Experiment
from driftless.reproduce.figure import curves
from driftless.reproduce.outcome import LAST_ACCURACY, Outcome


def train_declines(outcome: Outcome) -> Iterable[Check]:
    """If it were over-fitting, the training accuracy would not fall."""
    for name, falling in (("FedDyn", True), ("AdaBest", False)):
        _, train, _ = outcome.one(algorithm=name).curve("train_accuracy")
        tenth = max(1, len(train) // 10)
        peak = max(train[i : i + tenth].mean() for i in range(0, len(train) - tenth + 1, tenth))
        lost = 100 * float(peak - train[-tenth:].mean())
        yield Check(f"{name}'s training accuracy ends {lost:.2f} points below its best tenth", (lost > 2) == falling)


FIGURE_5 = Experiment(
    name="figure-5",
    title="The instability is not over-fitting",
    where="Figure 5, section D.4",
    about="Training accuracy of the participating clients beside the test accuracy, in the setting of Figure 1, one "
    "seed.",
    paper=replace(FIGURE_1.paper, seeds=1),
    small=FIGURE_1.small,
    measure=LAST_ACCURACY,
    claims=(
        Claim(
            "train-falls-too",
            "FedDyn's training accuracy declines as well, AdaBest's stays.",
            "Over tenths of the run, the training accuracy of the cohort ends more than 2 points below its best for "
            "FedDyn, less for AdaBest.",
            for_each_model(train_declines),
        ),
    ),
    figure=lambda outcome: [
        *curves(outcome, "train_accuracy", by="model"),
        *curves(outcome, "test_accuracy", by="model"),
    ],
)
