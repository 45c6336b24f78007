"""Figure 7: the best β for each rate of participation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from driftless.papers.adabest.settings import CIFAR100_MLP, HETEROGENEITY, LOCAL, TASKS, algorithm
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Setup
from driftless.reproduce.figure import sweep
from driftless.reproduce.outcome import LAST_ACCURACY, Outcome, above

BETAS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1)


def beta_cells(
    task: Mapping[str, Any], rounds: int, betas: Sequence[float] = BETAS, shares: Sequence[float] = SHARES
) -> tuple[Cell, ...]:
    return tuple(
        Cell(
            {"participation": share, "beta": beta},
            {**task, **HETEROGENEITY["α=0.3"], **LOCAL, **algorithm("AdaBest", beta), "data.clients": 1100,
             "data.validation": 100, "run.rounds": rounds, "run.cohort": round(1000 * share),
             "run.evaluate_every": max(1, rounds // 20)},
        )
        for share in shares
        for beta in betas
    )  # fmt: skip


def best_beta(outcome: Outcome, share: float) -> float:
    measured = {float(one.cell.at["beta"]): outcome.measured(one) for one in outcome.pick(participation=share)}
    return max(measured, key=lambda beta: -math.inf if math.isnan(measured[beta]) else measured[beta])


def best_beta_moves(outcome: Outcome) -> Iterable[Check]:
    shares = sorted(float(share) for share in outcome.places("participation"))
    low, high = best_beta(outcome, shares[0]), best_beta(outcome, shares[-1])
    yield Check(f"best β at {100 * shares[0]:g} % participation: {low:g}", 0.8 <= low <= 0.95)
    yield Check(f"best β at {100 * shares[-1]:g} % participation: {high:g}", 0.95 <= high <= 1.0)


def beta_one_improves(outcome: Outcome) -> Iterable[Check]:
    shares = sorted(float(share) for share in outcome.places("participation"))
    ends = [outcome.measured(outcome.one(participation=share, beta=1.0)) for share in shares]
    yield above(
        f"β = 1 at {100 * shares[-1]:g} % against {100 * shares[0]:g} % participation", ends[-1], ends[0], unit=" %"
    )


FIGURE_7 = Experiment(
    name="figure-7",
    title="Which β is best depends on the participation",
    where="Figure 7, section D.6",
    about="AdaBest with seven values of β and several rates of participation among 1,000 clients of CIFAR-100, α = "
    "0.3.",
    paper=Setup(beta_cells(TASKS["CIFAR100"], 1000), seeds=5),
    small=Setup(
        beta_cells(CIFAR100_MLP, 100, betas=(0.6, 0.8, 0.9, 0.95, 1.0), shares=(0.005, 0.02)),
        reduced="The MLP instead of the CNN, 100 rounds, two rates of participation, five values of β, one seed.",
    ),
    measure=LAST_ACCURACY,
    columns="beta",
    claims=(
        Claim(
            "beta-moves",
            "With few clients a round β between 0.8 and 0.95 is best, with more it moves to between 0.95 and 1.",
            "The best β lies in those ranges for the lowest and the highest rate of participation that are run.",
            best_beta_moves,
        ),
        Claim(
            "beta-one-rises",
            "β = 1 becomes better the more clients take part.",
            "With β = 1 the final accuracy at the highest rate of participation exceeds that at the lowest.",
            beta_one_improves,
        ),
    ),
    figure=lambda outcome: sweep(outcome, "participation", LAST_ACCURACY, line="beta", log_x=True),
)
