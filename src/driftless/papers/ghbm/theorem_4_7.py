"""Theorem 4.7: convergence whatever the heterogeneity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from driftless.algorithm import Algorithm
from driftless.data import Federation, load
from driftless.data.cohorts import Cohort
from driftless.papers.ghbm.quadratics import (
    AS_ANALYSED,
    Values,
    client_gradients,
    gap_to_optimum,
    methods,
    simulate_quadratics,
)
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.outcome import Floats, Outcome


def any_heterogeneity(
    clients: int, cohort: int, heterogeneity: Sequence[float], rounds: int, lr: float, seeds: int
) -> Values:
    """Per degree of heterogeneity and seed, with one local step: the gap at the end and the sum of squared gradient
    norms over the first half and over all rounds, of FedCM and of GHBM as analysed, both with cyclic participation."""
    found: Values = {}
    for degree in heterogeneity:
        rows: dict[str, list[list[float]]] = {}
        for seed in range(seeds):
            federation = load("quadratics", clients=clients, heterogeneity=degree, seed=seed)
            for name, algorithm, schedule, rate in methods(clients // cohort, cohort, lr):
                if name in ("FedCM, cyclic", AS_ANALYSED):
                    rows.setdefault(name, []).append(
                        gap_and_gradient_sums(algorithm, federation, schedule, rate, rounds, seed)
                    )
        found[f"{degree:g}"] = rows
    return found


def gap_and_gradient_sums(
    algorithm: Algorithm, federation: Federation, cohort: Cohort, lr: float, rounds: int, seed: int
) -> list[float]:
    """The mean gap of the last tenth of the rounds, the sum of |grad f|^2 over the first half, and over all."""
    models: list[Tensor] = []
    simulate_quadratics(
        algorithm, federation, cohort, lr, steps=1, rounds=rounds, seed=seed,
        on_round=lambda record: models.append(record.x.clone()),
    )  # fmt: skip
    gap = gap_to_optimum(federation)
    norms = [float(client_gradients(federation, x).mean(0).square().sum()) for x in models]
    last = models[-max(1, rounds // 10) :]
    return [sum(map(gap, last)) / len(last), sum(norms[: rounds // 2]), sum(norms)]


def columns(rows: list[list[float]]) -> list[Floats]:
    """Final gaps, sums of the first half and sums of all rounds: each by seed."""
    return list(np.array(rows).T)


def heterogeneity_is_harmless(outcome: Outcome) -> Iterable[Check]:
    """In powers of ten, because gaps of different seeds differ by factors."""
    for degree, found in outcome.values.items():
        classical, analysed = (columns(found[name])[0] for name in ("FedCM, cyclic", AS_ANALYSED))
        ratio = np.log10(classical / np.maximum(analysed, ROUNDING))
        yield above(f"heterogeneity {degree}: log10 of FedCM's final gap in units of that of GHBM as analysed, 2",
                    ratio, 2.0)  # fmt: skip


def mean_falls_like_1_over_t(outcome: Outcome) -> Iterable[Check]:
    for degree, found in outcome.values.items():
        _, half, total = columns(found[AS_ANALYSED])
        what = f"heterogeneity {degree}: sum of squared gradient norms in units of that of the first half, 1.05"
        yield below(what, total / half, 1.05)


ROUNDING = 1e-16
OPTIONS: dict[str, Any] = {"clients": 10, "cohort": 2, "heterogeneity": (0.5, 1.0, 2.0, 4.0, 8.0), "rounds": 800,
                           "lr": 0.5, "seeds": 4}  # fmt: skip
THEOREM_4_7 = Experiment(
    name="theorem-4-7",
    title="Convergence whatever the heterogeneity",
    where="Theorem 4.7, section 4.3, with Table 1",
    about="With cyclic participation and τ = 1/C, GHBM is proved to converge at the rate of full participation, "
    "without a bound on how much clients differ; without noise the mean squared gradient norm falls like 1/T.",
    paper=Setup(options=OPTIONS),
    small=Setup(
        options=OPTIONS,
        reduced="A study on quadratics, which the paper does not have: ten clients, two a round in turn, one local "
        "step, 800 rounds, five degrees of heterogeneity, four seeds.",
    ),
    study=any_heterogeneity,
    smoke_options={**OPTIONS, "heterogeneity": (1.0,), "rounds": 10, "seeds": 1},
    claims=(
        Claim(
            "unbounded",
            "GHBM, unlike classical momentum, converges whatever the heterogeneity.",
            "For each degree the final gap f(x) - f* of GHBM as analysed is less than 1 % of that of FedCM with the "
            "same cohorts, by the mean of the logarithms over the seeds.",
            heterogeneity_is_harmless,
            paper="Theorem 4.7 has no bound on the heterogeneity",
        ),
        Claim(
            "rate",
            "The mean of the squared gradient norms falls at least as fast as 1/T.",
            "For each degree their sum over all rounds is less than 5 % larger than that over the first half, on "
            "average over the seeds.",
            mean_falls_like_1_over_t,
            paper="LΔ/T without noise (Theorem 4.7)",
        ),
    ),
)
