"""Theorem 1: when FedDyn's h can shrink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from driftless.algorithms import FedDyn
from driftless.papers.adabest.settings import MU
from driftless.papers.adabest.trajectories import initial_model, trajectory
from driftless.reproduce.checks import Check, above, below, exact
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.figure import Line, Panel
from driftless.reproduce.outcome import Floats, Outcome

OFTEN, SELDOM = "5 of 20", "2 of 200"
COHORTS = {OFTEN: (5, 20), SELDOM: (2, 200)}


def study_theorem_1(rounds: int = 60, seeds: int = 2) -> dict[str, Any]:
    """Every round of FedDyn, with many and with few returning clients: does h shrink, does the inequality hold?"""
    return {setting: [feddyn_rounds(rounds, *sizes, seed) for seed in range(seeds)]
            for setting, sizes in COHORTS.items()}  # fmt: skip


def feddyn_rounds(rounds: int, cohort: int, clients: int, seed: int = 0) -> dict[str, Any]:
    agree, shrinks = 0, 0
    x, h = initial_model(seed), None
    norms: list[float] = []
    for record in trajectory(FedDyn(MU), rounds, cohort, clients, seed):
        g, new = x - record.aggregate, record.server.h
        if h is not None:
            cosine = float(torch.dot(h, g) / (h.norm() * g.norm()))
            holds = cosine <= -cohort / (2 * clients) * float(g.norm() / h.norm())
            shrunk = bool(new.norm() <= h.norm())
            agree, shrinks = agree + (holds == shrunk), shrinks + shrunk
        norms.append(float(new.norm()))
        x, h = record.x, new
    return {"rounds": rounds - 1, "agree": agree, "shrinks": shrinks, "norms": norms}


def condition_agrees(outcome: Outcome) -> Iterable[Check]:
    for setting, seen in outcome.values.items():
        agree, rounds = (sum(one[key] for one in seen) for key in ("agree", "rounds"))
        yield exact(f"{setting} clients: {agree} of {rounds} rounds agree", agree == rounds)


def share_of_shrinking(outcome: Outcome, setting: str) -> Floats:
    """Per seed, in per cent of the rounds."""
    return np.array([100 * one["shrinks"] / one["rounds"] for one in outcome.values[setting]])


def seldom_shrinks(outcome: Outcome) -> Iterable[Check]:
    share = share_of_shrinking(outcome, SELDOM)
    yield below(f"{SELDOM} clients: rounds in which h shrinks", share, 50.0, unit=" %")
    yield below(f"rounds in which h shrinks, {SELDOM} against {OFTEN} clients", share,
                share_of_shrinking(outcome, OFTEN), unit=" %")  # fmt: skip


def keeps_growing(outcome: Outcome) -> Iterable[Check]:
    norms = np.array([one["norms"] for one in outcome.values[SELDOM]])
    what = f"{SELDOM} clients: norm of h at the end against after a quarter"
    yield above(what, norms[:, -1], norms[:, norms.shape[1] // 4])


def norm_panels(outcome: Outcome) -> Iterator[Panel]:
    for setting, seen in outcome.values.items():
        norms = np.array([one["norms"] for one in seen])
        line = Line("", list(range(1, norms.shape[1] + 1)), norms.mean(0).tolist(), norms.std(0).tolist())
        yield Panel(f"FedDyn, {setting} clients", "rounds", "norm of h", (line,))


THEOREM_1 = Experiment(
    name="theorem-1",
    title="When FedDyn's h can shrink",
    where="Theorem 1, section 3.4",
    about="FedDyn on the digits in double precision, 5 of 20 and 2 of 200 clients a round, six seeds: in each round, "
    "the norm of h and the cosine between h and the mean pseudo-gradient.",
    paper=Setup(options={"rounds": 400, "seeds": 6}),
    small=Setup(options={"rounds": 400, "seeds": 6}),
    smoke_options={"rounds": 6, "seeds": 2},
    study=study_theorem_1,
    claims=(
        Claim(
            "condition",
            "The norm of h does not grow in a round only if the cosine is below the theorem's bound.",
            "In every round, the inequality of the theorem holds exactly when the norm of h did not grow.",
            condition_agrees,
            kind="identity",
            paper="Theorem 1",
        ),
        Claim(
            "seldom",
            "Where clients return seldom such rounds are the exception.",
            "With 2 of 200 clients h shrinks in fewer than half of the rounds, and in fewer than with 5 of 20.",
            seldom_shrinks,
            paper='"unlikely to occur" (section 3.4)',
        ),
        Claim(
            "grows",
            "There the norm of h keeps growing.",
            "With 2 of 200 clients the norm of h at the end exceeds that after a quarter of the rounds.",
            keeps_growing,
            paper='"difficult for the norm of h to decrease" (section 3.4)',
        ),
    ),
    figure=lambda outcome: list(norm_panels(outcome)),
)
