"""Remarks 1 to 5: identities of AdaBest, FedAvg and FedDyn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch

from driftless.algorithms import AdaBest, FedAvg, FedDyn
from driftless.engine.history import Record
from driftless.papers.adabest.settings import MU
from driftless.papers.adabest.trajectories import distance, initial_model, trajectory
from driftless.reproduce.checks import Check, within
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome


def study_remarks(rounds: int = 30, beta: float = 0.9) -> dict[str, Any]:
    """Largest distance between the two sides of each remark, relative to their size."""
    x = before = initial_model()
    h, gradients = torch.zeros_like(x), []
    found: dict[str, float] = dict.fromkeys(
        ("1", "2", "3 as printed in the paper", "3 as printed in the supplement"), 0.0
    )
    for record in trajectory(AdaBest(MU, beta), rounds, 5):
        g = x - record.aggregate
        gradients.append(g)
        found["1"] = max(found["1"], distance(record.aggregate, x - g))
        found["2"] = max(found["2"], distance(before - record.aggregate, h + g))
        h = record.server.h
        powers = [beta ** (len(gradients) - s) for s in range(1, len(gradients) + 1)]
        series = sum((power * g for power, g in zip(powers, gradients, strict=True)), torch.zeros_like(x))
        for form, factor in (("paper", 1.0), ("supplement", beta)):
            name = f"3 as printed in the {form}"
            found[name] = max(found[name], distance(h, factor * series))
        x, before = record.x, record.aggregate
    found["4"] = largest_distance(trajectory(AdaBest(mu=0.0, beta=0.0), rounds, 5), trajectory(FedAvg(), rounds, 5))
    full = trajectory(AdaBest(MU, beta=1.0), rounds, 20)
    found["5"] = max(
        distance(after.server.h, now.server.h + (now.x - after.aggregate)) for now, after in pairwise(full)
    )
    feddyn = trajectory(FedDyn(MU), rounds, 5)
    scaled = [distance(b.server.h, a.server.h + 5 / 20 * (a.x - b.aggregate)) for a, b in pairwise(feddyn)]
    found["5 with the factor |P|/|S|"] = max(scaled)
    return found


def largest_distance(one: Sequence[Record], other: Sequence[Record]) -> float:
    return max(distance(a.x, b.x) for a, b in zip(one, other, strict=True))


def sides_agree(name: str) -> Callable[[Outcome], Iterable[Check]]:
    return lambda outcome: [within(f"relative distance of both sides, remark {name}", outcome.values[name], 0, 1e-9)]


REMARKS = Experiment(
    name="remarks",
    title="Remarks 1 to 5",
    where="Remarks 1-5, section 3 and appendix A",
    about="Both sides of each remark along trajectories of AdaBest, FedAvg and FedDyn on the digits in double "
    "precision.",
    paper=Setup(options={"rounds": 60}),
    small=Setup(options={"rounds": 60}),
    smoke_options={"rounds": 4},
    study=study_remarks,
    kind="identity",
    claims=tuple(
        Claim(f"remark-{name.split()[0]}{'-' + name.split()[-1] if ' ' in name else ''}", text,
              "Both sides agree to a relative 1e-9 in every round.", sides_agree(name))
        for name, text in (
            ("1", "Averaging models is a step of size 1 along the mean pseudo-gradient."),
            ("2", "The difference of two mean models is h plus the new mean pseudo-gradient."),
            ("3 as printed in the paper", "h is a power series of pseudo-gradients, in the form of the main "
            "text (exponent t - τ)."),
            ("3 as printed in the supplement", "h is that power series, in the form of the supplement (exponent "
            "t - τ + 1)."),
            ("4", "AdaBest with β = μ = 0 is FedAvg."),
            ("5", "With β = 1, AdaBest's server update is h plus the mean pseudo-gradient."),
            ("5 with the factor |P|/|S|", "FedDyn's server update is that with an extra factor |P|/|S|."),
        )
    ),
)  # fmt: skip
