"""Figure 7: the best β for each rate of participation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from driftless.papers.adabest.figure_1 import ROUNDS
from driftless.papers.adabest.settings import CIFAR100_MLP, COMMON, HETEROGENEITY, TASKS, algorithm
from driftless.reproduce.checks import Check, above, close
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.figure import sweep
from driftless.reproduce.outcome import LAST_ACCURACY, Floats, Outcome

BETAS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1)
BEST_FOR_FEW = (0.8, 0.9, 0.95)
BEST_FOR_MANY = (0.95, 1.0)
FLAT = (0.6, 0.8, 0.9, 0.95)
"""What we take as the paper's "wide range": four of the seven values, up to the best ones."""


def beta_cells(
    task: Mapping[str, Any], rounds: int, held_out: int = 100, shares: Sequence[float] = SHARES
) -> tuple[Cell, ...]:
    return tuple(
        Cell(
            {"participation": share, "beta": beta},
            {**task, **HETEROGENEITY["α=0.3"], **COMMON, **algorithm("AdaBest", beta), "data.clients": 1000 + held_out,
             "data.validation": held_out, "run.rounds": rounds, "run.cohort": round(1000 * share),
             "run.evaluate_every": max(1, rounds // 20)},
        )
        for share in shares
        for beta in BETAS
    )  # fmt: skip


def accuracy(outcome: Outcome, share: float, *betas: float) -> Floats:
    """For each seed, the mean over some β."""
    return np.mean([outcome.measured(outcome.one(participation=share, beta=beta)) for beta in betas], axis=0)


def shares_of(outcome: Outcome) -> list[float]:
    return sorted(float(share) for share in outcome.places("participation"))


def best_for_few(outcome: Outcome) -> Iterable[Check]:
    share = shares_of(outcome)[0]
    for beta in (beta for beta in BETAS if beta not in BEST_FOR_FEW):
        ours, other = accuracy(outcome, share, *BEST_FOR_FEW), accuracy(outcome, share, beta)
        yield above(f"{100 * share:g} % participation, β from 0.8 to 0.95 against {beta:g}", ours, other, unit=" %")


def best_beta_moves(outcome: Outcome) -> Iterable[Check]:
    few, *_, many = shares_of(outcome)
    gain = {share: accuracy(outcome, share, *BEST_FOR_MANY) - accuracy(outcome, share, 0.8) for share in (many, few)}
    what = f"gain of β from 0.95 to 1 over 0.8, {100 * many:g} % against {100 * few:g} % participation"
    yield above(what, gain[many], gain[few], unit=" points")


def beta_one_rises(outcome: Outcome) -> Iterable[Check]:
    few, *_, many = shares_of(outcome)
    what = f"β = 1 with {100 * many:g} % against {100 * few:g} % participation"
    yield above(what, accuracy(outcome, many, 1.0), accuracy(outcome, few, 1.0), unit=" %")


def flat_range(outcome: Outcome) -> Iterable[Check]:
    for share in shares_of(outcome):
        mean = accuracy(outcome, share, *FLAT)
        for beta in FLAT:
            what = f"{100 * share:g} % participation, β = {beta:g} against the mean of the range"
            yield from close(what, accuracy(outcome, share, beta), mean, margin=3, unit=" %")


FIGURE_7 = Experiment(
    name="figure-7",
    title="Which β is best depends on the participation",
    where="Figure 7, section D.6",
    about="AdaBest with seven values of β and several rates of participation among 1,000 clients of CIFAR-100, in the "
    "setting of Figure 1.",
    paper=Setup(beta_cells(TASKS["CIFAR100"], ROUNDS), seeds=5),
    small=Setup(
        beta_cells(CIFAR100_MLP, 300, held_out=112, shares=(0.005, 0.02, 0.05)),
        seeds=3,
        reduced="The MLP instead of the CNN, 300 instead of 3,000 rounds, three rates of participation; 1,112 parts "
        "instead of 1,100, so that a client's data are one batch. With 0.5 % participation a fifth of the clients "
        "never takes part in 300 rounds; in the average of client models they count with the initial one.",
    ),
    measure=LAST_ACCURACY,
    columns="beta",
    claims=(
        Claim(
            "best-for-few",
            "With 0.5 % participation β between 0.8 and 0.95 is best.",
            "At the lowest rate of participation the mean accuracy of β = 0.8, 0.9 and 0.95 exceeds that of each other "
            "β.",
            best_for_few,
            paper='"the optimal β is between 0.8 and 0.95" (D.6)',
        ),
        Claim(
            "beta-moves",
            "With more participation the best β moves away from 0.8 to between 0.95 and 1.",
            "The mean accuracy of β = 0.95 and 1, less that of β = 0.8, is larger at the highest rate of participation "
            "than at the lowest.",
            best_beta_moves,
            paper='"moves away from 0.8 towards between 0.95 and 1.0" (D.6)',
        ),
        Claim(
            "beta-one-rises",
            "β = 1 becomes better the more clients take part.",
            "With β = 1 the final accuracy at the highest rate of participation exceeds that at the lowest.",
            beta_one_rises,
            paper="the curve of β = 1 rises (drawn)",
        ),
        Claim(
            "flat-range",
            "For a wide range of β the accuracy is almost the same, whatever the participation.",
            "At each rate of participation the accuracy of every β from 0.6 to 0.95 is within 3 points of their mean.",
            flat_range,
            paper='"remains almost stable" (D.6)',
        ),
    ),
    figure=lambda outcome: sweep(outcome, "participation", LAST_ACCURACY, line="beta", log_x=True),
)
