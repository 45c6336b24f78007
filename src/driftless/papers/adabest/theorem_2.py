"""Theorem 2: no stationary point unless h vanishes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from driftless.papers.adabest.settings import MU
from driftless.papers.adabest.trajectories import trajectory
from driftless.reproduce.experiment import Check, Claim, Experiment, Setup
from driftless.reproduce.figure import Line, Panel
from driftless.reproduce.outcome import Outcome, below


def study_theorem_2(rounds: int = 200) -> dict[str, Any]:
    """Steps of the mean model and norms of h, 5 of 20 clients a round."""
    found: dict[str, Any] = {}
    for title, name, options in (
        ("FedDyn", "feddyn", {"mu": MU}),
        ("AdaBest, β=0.96", "adabest", {"mu": MU, "beta": 0.96}),
        ("AdaBest, β=1", "adabest", {"mu": MU, "beta": 1.0}),
    ):
        records = trajectory(name, rounds, 5, 20, **options)
        steps = [float((b.aggregate - a.aggregate).norm()) for a, b in pairwise(records)]
        norms = [float(record.server.h.norm()) for record in records[1:]]
        found[title] = {"steps": steps, "norms": norms}
    return found


def step_needs_h(outcome: Outcome) -> Iterable[Check]:
    """Where the last steps are small against the first ones, h is small too; and the other way round."""
    for title, values in outcome.values.items():
        quarter = max(1, len(values["steps"]) // 4)
        step = sum(values["steps"][-quarter:]) / sum(values["steps"][:quarter])
        norm = values["norms"][-1] / max(values["norms"])
        yield Check(f"{title}: steps of the mean model {step:.3g} of the first, h {norm:.3g} of its largest",
                    step > 0.1 or norm < 0.5)  # fmt: skip


THEOREM_2 = Experiment(
    name="theorem-2",
    title="No stationary point unless h vanishes",
    where="Theorem 2, section 3.5",
    about="The mean model's steps and the norm of h over many rounds with 5 of 20 clients, in double precision.",
    paper=Setup(options={"rounds": 400}),
    small=Setup(options={"rounds": 400}),
    smoke_options={"rounds": 8},
    study=study_theorem_2,
    claims=(
        Claim(
            "h-must-vanish",
            "The mean model comes to rest only if h goes to zero.",
            "No algorithm has mean steps in the last quarter below a tenth of those in the first while h stays above "
            "half of its largest norm.",
            step_needs_h,
        ),
        Claim(
            "adabest-rests",
            "AdaBest with β < 1 keeps h bounded where FedDyn's keeps growing.",
            "At the end the norm of h is below half of FedDyn's.",
            lambda outcome: [below("norm of h, AdaBest β=0.96 against half of FedDyn's",
                                   outcome.values["AdaBest, β=0.96"]["norms"][-1],
                                   outcome.values["FedDyn"]["norms"][-1] / 2)],
        ),
    ),
    figure=lambda outcome: [
        Panel("", "rounds", what, tuple(
            Line(title, list(range(2, len(values[key]) + 2)), values[key]) for title, values in outcome.values.items()
        ), log_y=True)
        for key, what in (("steps", "step of the mean model"), ("norms", "norm of h"))
    ],
)  # fmt: skip
