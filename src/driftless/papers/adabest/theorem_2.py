"""Theorem 2: no stationary point unless h vanishes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from driftless.algorithm import Algorithm
from driftless.algorithms import AdaBest, FedDyn
from driftless.papers.adabest.settings import MU
from driftless.papers.adabest.trajectories import trajectory
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.figure import Line, Panel
from driftless.reproduce.outcome import Floats, Outcome

ALGORITHMS: dict[str, Algorithm] = {
    "FedDyn": FedDyn(MU), "AdaBest, β=0.96": AdaBest(MU, beta=0.96), "AdaBest, β=1": AdaBest(MU, beta=1.0),
}  # fmt: skip


def study_theorem_2(rounds: int = 200, seeds: int = 2) -> dict[str, Any]:
    """Steps of the mean model and norms of h, 5 of 20 clients a round: [seed][round]."""
    found: dict[str, Any] = {}
    for title, algorithm in ALGORITHMS.items():
        runs = [trajectory(algorithm, rounds, 5, 20, seed) for seed in range(seeds)]
        found[title] = {
            "steps": [[float((b.aggregate - a.aggregate).norm()) for a, b in pairwise(run)] for run in runs],
            "norms": [[float(record.server.h.norm()) for record in run[1:]] for run in runs],
        }
    return found


def values_of(outcome: Outcome, title: str, key: str) -> Floats:
    """[seed, round]."""
    return np.array(outcome.values[title][key])


def rests_only_without_h(outcome: Outcome) -> Iterable[Check]:
    """Per seed, the larger of two margins: of the steps above a tenth of the first, of h below half of its largest."""
    for title in outcome.values:
        steps, norms = values_of(outcome, title, "steps"), values_of(outcome, title, "norms")
        quarter = max(1, steps.shape[1] // 4)
        step = steps[:, -quarter:].sum(1) / steps[:, :quarter].sum(1)
        norm = norms[:, -1] / norms.max(1)
        what = f"{title}: steps {step.mean():.3g} of the first, h {norm.mean():.3g} of its largest, margin"
        yield above(what, np.maximum(step - 0.1, 0.5 - norm), 0.0)


def stays_bounded(outcome: Outcome) -> Iterable[Check]:
    ours, theirs = (values_of(outcome, title, "norms")[:, -1] for title in ("AdaBest, β=0.96", "FedDyn"))
    yield below("norm of h at the end, AdaBest with β=0.96 against half of FedDyn's", ours, theirs / 2)


def panels(outcome: Outcome) -> Iterator[Panel]:
    for key, what in (("steps", "step of the mean model"), ("norms", "norm of h")):
        means = {title: values_of(outcome, title, key).mean(0) for title in outcome.values}
        lines = (Line(title, list(range(2, len(y) + 2)), y.tolist()) for title, y in means.items())
        yield Panel("", "rounds", what, tuple(lines), log_y=True)


THEOREM_2 = Experiment(
    name="theorem-2",
    title="No stationary point unless h vanishes",
    where="Theorem 2, section 3.5",
    about="The mean model's steps and the norm of h over many rounds with 5 of 20 clients, in double precision, six "
    "seeds.",
    paper=Setup(options={"rounds": 400, "seeds": 6}),
    small=Setup(options={"rounds": 400, "seeds": 6}),
    smoke_options={"rounds": 8, "seeds": 2},
    study=study_theorem_2,
    claims=(
        Claim(
            "h-must-vanish",
            "The mean model comes to rest only if h goes to zero.",
            "For each algorithm, the steps in the last quarter are above a tenth of those in the first, or h ends "
            "below half of its largest norm.",
            rests_only_without_h,
            paper="Theorem 2",
        ),
        Claim(
            "adabest-rests",
            "AdaBest with β < 1 keeps h bounded where FedDyn's keeps growing.",
            "At the end the norm of h is below half of FedDyn's.",
            stays_bounded,
            paper='"a direct decay of h" (section 3.5); no number',
        ),
    ),
    figure=lambda outcome: list(panels(outcome)),
)
