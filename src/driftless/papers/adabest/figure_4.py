"""Figure 4: the instability of Figure 1 on an easy task."""

from __future__ import annotations

from driftless.papers.adabest.settings import MNIST_MLP, TASKS
from driftless.papers.adabest.stability import (
    SMALL_ROUNDS,
    STUDIED,
    accuracy_falls,
    norm_growth,
    stability_cells,
    stability_figure,
)
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.outcome import LAST_ACCURACY

FIGURE_4 = Experiment(
    name="figure-4",
    title="The same instability on an easy task",
    where="Figure 4, section D.3",
    about="EMNIST-L dealt at random to 110 parts, 100 of them clients, 5 a round, for many rounds.",
    paper=Setup(stability_cells(TASKS["EMNIST-L"], 100, "IID", 10_000, STUDIED), seeds=5),
    small=Setup(
        stability_cells(MNIST_MLP, 100, "IID", SMALL_ROUNDS, STUDIED),
        reduced="MNIST instead of EMNIST-L, 500 rounds, one seed.",
    ),
    measure=LAST_ACCURACY,
    claims=(
        Claim(
            "easy-too",
            "Even on an easy, homogeneous task the norm of FedDyn's model grows without end.",
            "From the first quarter of the rounds to the end the norm more than doubles for FedDyn, and does not for "
            "AdaBest.",
            norm_growth,
        ),
        Claim(
            "fails-to-converge",
            "FedDyn does not converge there when training goes on.",
            "The mean of the last tenth of the evaluations is more than 2 points below the best for FedDyn, less for "
            "AdaBest.",
            accuracy_falls,
        ),
    ),
    figure=stability_figure,
)
