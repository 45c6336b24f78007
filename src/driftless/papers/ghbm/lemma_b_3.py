"""Lemmas B.2 and B.3: GHBM's two forms are one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from driftless.algorithms import ServerGHBM
from driftless.data import load
from driftless.engine.history import Record
from driftless.papers.ghbm.quadratics import Values, simulate_quadratics
from driftless.reproduce.checks import Check, exact
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome


def momentum_forms(taus: Sequence[int], rounds: int, beta: float, clients: int, cohort: int) -> Values:
    """The largest distance between the heavy-ball form, as `server-ghbm` runs it, and the sum of old momentum terms."""
    federation = load("quadratics", clients=clients)
    found: Values = {}
    for tau in taus:
        records: list[Record] = []
        algorithm = ServerGHBM(beta=beta, tau=tau)
        simulate_quadratics(algorithm, federation, cohort, lr=0.2, steps=3, rounds=rounds, on_round=records.append)
        found[str(tau)] = distance_to_sums(records, tau, beta)
    return found


def distance_to_sums(records: Sequence[Record], tau: int, beta: float) -> float:
    """Equations (19) and (20), from the second model on: the first is taken from the run."""
    first, *rest = records
    x, momentum = first.x, [torch.zeros_like(first.x)] * (tau - 1) + [start_momentum(first)]
    largest = 0.0
    for before, record in zip(records, rest, strict=False):
        pseudo_gradient = before.x - record.aggregate
        m = beta / tau * torch.stack(momentum[-tau:]).sum(0) + pseudo_gradient
        x, momentum = x - m, [*momentum, m]
        largest = max(largest, float((x - record.x).abs().max()))
    return largest


def start_momentum(first: Record) -> Tensor:
    """m^1 = x^0 - x^1, the only term that needs x^0: the server keeps it as its oldest model."""
    return first.server.past[-1] - first.x


def forms_are_equal(outcome: Outcome) -> Iterable[Check]:
    for tau, distance in outcome.values.items():
        yield exact(f"τ = {tau}: largest distance of the models: {distance:.2g}", distance < 1e-10)


OPTIONS: dict[str, Any] = {"taus": (1, 2, 3, 5, 10), "rounds": 60, "beta": 0.9, "clients": 10, "cohort": 2}
LEMMA_B_3 = Experiment(
    name="lemma-b-3",
    title="GHBM's two forms are one",
    where="Lemmas B.2 and B.3, appendix B.1",
    about="Momentum as the decayed mean of the last τ momentum terms, and as a difference of two models τ rounds "
    "apart.",
    paper=Setup(options=OPTIONS),
    small=Setup(
        options=OPTIONS, reduced="Nothing is reduced: quadratics of ten clients, two a round, 60 rounds, in float64."
    ),
    study=momentum_forms,
    kind="identity",
    smoke_options={**OPTIONS, "taus": (1, 3), "rounds": 6},
    claims=(
        Claim(
            "equal",
            "Both forms give the same models; τ = 1 is classical heavy-ball momentum.",
            "The models of 60 rounds differ by less than 1e-10 for each τ.",
            forms_are_equal,
        ),
    ),
)
