"""Figure 5: the instability is not over-fitting."""

from __future__ import annotations

from dataclasses import replace

from driftless.papers.adabest.figure_1 import FIGURE_1
from driftless.papers.adabest.stability import does_not_fall, falls
from driftless.reproduce.experiment import Claim, Experiment
from driftless.reproduce.figure import curves
from driftless.reproduce.outcome import LAST_ACCURACY

FIGURE_5 = Experiment(
    name="figure-5",
    title="The instability is not over-fitting",
    where="Figure 5, section D.4",
    about="Training accuracy of the participating clients, averaged, beside the test accuracy, in the setting of "
    "Figure 1; the paper shows one seed.",
    paper=replace(FIGURE_1.paper, seeds=1),
    small=FIGURE_1.small,
    measure=LAST_ACCURACY,
    claims=(
        Claim(
            "train-falls-too",
            "The training accuracy of FedDyn and SCAFFOLD declines as well.",
            "For each of them the mean training accuracy of the last tenth of the rounds is more than 2 points below "
            "that of the best tenth. (It would not fall if they only over-fitted.)",
            lambda outcome: falls(outcome, "FedDyn", "SCAFFOLD", key="train_accuracy"),
            paper='"severely declined" (D.4)',
        ),
        Claim(
            "adabest-keeps",
            "AdaBest's training accuracy stays.",
            "The mean training accuracy of its last tenth of the rounds is less than 2 points below that of its best "
            "tenth.",
            lambda outcome: [does_not_fall(outcome, "AdaBest", "train_accuracy")],
            paper='"much more stable" (D.4)',
        ),
    ),
    figure=lambda outcome: [*curves(outcome, "train_accuracy"), *curves(outcome, "test_accuracy")],
)
