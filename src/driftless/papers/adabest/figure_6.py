"""Figure 6: sensitivity to μ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from driftless.papers.adabest.figure_4 import RULE, constant_rate, easy_settings
from driftless.papers.adabest.settings import BETA, MNIST_MLP, TASKS, algorithm
from driftless.reproduce.checks import Check, below
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.figure import curves
from driftless.reproduce.outcome import LAST_ACCURACY, Outcome

MUS = (0.02, 0.04, 0.08, 0.16)
MOST_DIFFERENT = (MUS[0], MUS[-1])


def mu_cells(settings: Mapping[str, Any], mus: Sequence[float] = MUS) -> tuple[Cell, ...]:
    return tuple(
        Cell({"algorithm": name, "mu": mu}, {**settings, **algorithm(name, BETA["10%"], mu)})
        for name in ("AdaBest", "FedDyn")
        for mu in mus
    )


def accuracy_depends_less(outcome: Outcome) -> Iterable[Check]:
    spread = {
        name: np.ptp([outcome.measured(one) for one in outcome.pick(algorithm=name)], axis=0)
        for name in outcome.places("algorithm")
    }
    yield below(
        "range of final accuracies, AdaBest against FedDyn", spread["AdaBest"], spread["FedDyn"], unit=" points"
    )


def norm_stays_smaller(outcome: Outcome) -> Iterable[Check]:
    for mu in outcome.places("mu"):
        norms = {name: outcome.one(algorithm=name, mu=mu).final("norm_x") for name in ("AdaBest", "FedDyn")}
        yield below(f"μ = {mu:g}: final norm, AdaBest against FedDyn", norms["AdaBest"], norms["FedDyn"])


FIGURE_6 = Experiment(
    name="figure-6",
    title="Sensitivity to μ",
    where="Figure 6, section D.5",
    about="The setting of Figure 4 with μ = 0.02, 0.04, 0.08 and 0.16 for AdaBest and FedDyn.",
    paper=Setup(mu_cells(easy_settings(TASKS["EMNIST-L"])), seeds=5),
    small=Setup(
        mu_cells(easy_settings(MNIST_MLP), MOST_DIFFERENT),
        seeds=2,
        most_seeds=3,
        reduced="MNIST instead of EMNIST-L; only the smallest and the largest μ. The rounds are the paper's, because "
        "1,000 are too few (Figure 4).",
    ),
    measure=LAST_ACCURACY,
    columns="mu",
    claims=(
        Claim(
            "mu-insensitive",
            "AdaBest's accuracy depends less on μ than FedDyn's.",
            f"{RULE} the range of final accuracies over the values of μ is smaller for AdaBest than for FedDyn.",
            accuracy_depends_less,
            paper='FedDyn is "heavily relied on the choice of μ" (D.5)',
        ),
        Claim(
            "norm-for-all-mu",
            "Whatever μ is, the norm of AdaBest's model stays far below FedDyn's.",
            f"{RULE} for each μ AdaBest's final norm is smaller than FedDyn's.",
            norm_stays_smaller,
            paper="converges for AdaBest, diverges for FedDyn (drawn on different scales)",
        ),
    ),
    figure=lambda outcome: [
        panel
        for key in ("test_accuracy", "norm_x")
        for panel in curves(outcome, key, by="algorithm", log=key == "norm_x")
    ],
)
FIGURE_6_CONSTANT_RATE = constant_rate(FIGURE_6)
