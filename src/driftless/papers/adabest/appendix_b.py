"""Appendix B: AdaBest weighs its estimates by clients' examples without knowing all clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from driftless.algorithms import AdaBest
from driftless.papers.adabest.settings import MU
from driftless.papers.adabest.trajectories import digits, distance, trajectory
from driftless.reproduce.checks import Check, within
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome


def study_appendix_b(rounds: int = 30) -> dict[str, float]:
    """Largest relative distances from what appendix B says."""
    sizes = digits(20, sizes="lognormal").sizes
    seen: list[int] = []
    of_mean = 0.0
    for record in trajectory(AdaBest(MU), rounds, 5, 20, sizes="lognormal"):
        seen += [int(sizes[client]) for client in record.cohort]
        kept = float(AdaBest().broadcast(record.server).mean_examples)
        of_mean = max(of_mean, abs(kept / float(np.mean(seen)) - 1))
    # Three clients, because the digits can be divided evenly among three.
    forms = [trajectory(AdaBest(MU, size_adaptive=adaptive), rounds, 2, 3) for adaptive in (True, False)]
    of_form = max(distance(one.x, other.x) for one, other in zip(*forms, strict=True))
    return {"running mean": of_mean, "equal sizes": of_form}


def is_rounding(name: str) -> Callable[[Outcome], Iterable[Check]]:
    return lambda outcome: [within(f"{name}: relative distance", outcome.values[name], 0, 1e-9)]


APPENDIX_B = Experiment(
    name="appendix-b",
    title="Unbalanced data without knowledge of all clients",
    where="Appendix B",
    about="AdaBest on the digits in double precision: 5 of 20 clients with log-normal numbers of examples, and 2 of 3 "
    "clients with equal ones. (What such weights do to FedDyn and SCAFFOLD is judged with Figure 3.)",
    paper=Setup(options={"rounds": 60}),
    small=Setup(options={"rounds": 60}),
    smoke_options={"rounds": 4},
    study=study_appendix_b,
    kind="identity",
    claims=(
        Claim(
            "running-mean",
            "The average number of examples that weighs the estimates is calculated progressively, without knowledge "
            "of the number of clients.",
            "In every round the number that the server sends out is the mean over all participations so far, to a "
            "relative 1e-9.",
            is_rounding("running mean"),
            paper='"progressively calculating this average throughout the training"',
        ),
        Claim(
            "balanced-case",
            "With equal numbers of examples this is Algorithm 1.",
            "With and without the weights the model is the same in every round, to a relative 1e-9.",
            is_rounding("equal sizes"),
            paper="Algorithm 1 is presented for the balanced case",
        ),
    ),
)
