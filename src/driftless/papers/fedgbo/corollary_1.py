"""Corollary 1's advice: decay the number of local steps or the learning rate during training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from driftless.algorithms import FedGBO
from driftless.data import optimum
from driftless.engine.local import LocalTraining
from driftless.papers.fedgbo.theorem_1 import Quadratics, linear_model, quadratics
from driftless.reproduce.checks import Check, below
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.figure import Line, Panel
from driftless.reproduce.outcome import Floats, Outcome
from driftless.simulate import simulate

MOST_STEPS, LEAST_STEPS = 20, 1
RATE = 0.05
"""η L."""
BETA = 0.9
COHORTS = (5, 20)
PARTS = 5
"""K (or η) is halved after each of them."""


def decaying_steps(rounds: int) -> list[int]:
    """20, 10, 5, 2, 1 local steps, each for a fifth of the rounds."""
    return [max(LEAST_STEPS, MOST_STEPS >> (t * PARTS // rounds)) for t in range(rounds)]


def plans(lr: float, rounds: int) -> dict[str, LocalTraining]:
    """η̃ = Kη is the same in both that decay, and in both that are small."""
    steps = decaying_steps(rounds)
    shares = [K / MOST_STEPS for K in steps]
    return {
        "K = 20": LocalTraining(lr=lr, steps=MOST_STEPS, batch_size=None),
        "K decays": LocalTraining(lr=lr, steps=steps, batch_size=None),
        "η decays": LocalTraining(lr=[lr * share for share in shares], steps=MOST_STEPS, batch_size=None),
        "K = 1": LocalTraining(lr=lr, steps=LEAST_STEPS, batch_size=None),
        "η / 20": LocalTraining(lr=lr * shares[-1], steps=MOST_STEPS, batch_size=None),
    }


def gaps(problem: Quadratics, local: LocalTraining, cohort: int, rounds: int, seed: int) -> Floats:
    """F(x_t) - F*, divided by that of the start, after each round."""
    x: list[Tensor] = []
    simulate(
        FedGBO(optimizer="sgdm", beta=BETA), problem.federation, linear_model(problem.rows.shape[-1]), rounds=rounds,
        cohort=cohort, local=local, seed=seed, engine="block", dtype=torch.float64, evaluate_every=0,
        on_round=lambda record: x.append(record.x.clone()),
    )  # fmt: skip
    least, start = problem.loss(optimum(problem.federation)), problem.loss(torch.zeros_like(x[0]))
    return np.array([(problem.loss(one) - least) / (start - least) for one in x])


def study_decay(rounds: int, seeds: int) -> dict[str, Any]:
    """Clients and cohorts are others for each seed. Logarithms to base 10."""
    cases = []
    problems = [quadratics(1.0, None, seed) for seed in range(seeds)]
    for cohort, name in product(COHORTS, plans(1.0, rounds)):
        curves = [
            gaps(problem, plans(RATE / problem.smoothness, rounds)[name], cohort, rounds, seed)
            for seed, problem in enumerate(problems)
        ]
        tenth, fifth = max(1, rounds // 10), max(1, rounds // PARTS)
        cases.append({
            "cohort": cohort, "plan": name,
            "start": [float(np.log10(curve[:fifth]).mean()) for curve in curves],
            "end": [float(np.log10(curve[-tenth:].mean())) for curve in curves],
            "curve": [float(value) for value in 10 ** np.log10(curves).mean(0)],
        })  # fmt: skip
    return {"cases": cases}


def values_of(outcome: Outcome, cohort: int, plan: str, key: str) -> Floats:
    (case,) = (one for one in outcome.values["cases"] if one["cohort"] == cohort and one["plan"] == plan)
    return np.array(case[key])


def compared(key: str, plan: str, other: str) -> Callable[[Outcome], Iterable[Check]]:
    """The first plan has the smaller gap, for each size of the cohort."""

    def checks(outcome: Outcome) -> Iterable[Check]:
        for cohort in COHORTS:
            text = f"{cohort} clients a round, log10 of the gap at the {key}, {plan} against {other}"
            yield below(text, values_of(outcome, cohort, plan, key), values_of(outcome, cohort, other, key))

    return checks


def decay_figure(outcome: Outcome) -> list[Panel]:
    def lines(cohort: int) -> Iterable[Line]:
        for one in outcome.values["cases"]:
            if one["cohort"] == cohort:
                yield Line(one["plan"], range(1, len(one["curve"]) + 1), one["curve"])

    return [
        Panel(f"{cohort} of 20 clients a round", "rounds", "F(x) - F*, that of the start is 1", tuple(lines(cohort)),
              log_y=True)
        for cohort in COHORTS
    ]  # fmt: skip


def decay_claim(name: str, text: str, rule: str, key: str, plan: str, other: str) -> Claim:
    return Claim(name, text, rule, compared(key, plan, other), paper="advised, not tried")


OPTIONS: Mapping[str, Any] = {"rounds": 200, "seeds": 6}
END = "mean over the last tenth of the rounds"
START = "logarithm, mean over the first fifth of the rounds"
COROLLARY_1 = Experiment(
    name="corollary-1",
    title="Decaying local steps or learning rate",
    where="Corollary 1, section 3",
    about="The authors conclude that η or K should decay during training, to balance fast convergence and final error. "
    "Tried with FedGBO (SGDm, β = 0.9) on 20 different quadratics of 5 dimensions with full batches, 5 or all of them "
    "a round, in double precision: 200 rounds with K = 20 and η = 0.05/L, with K halved after every fifth of the "
    "rounds (20, 10, 5, 2, 1), with η reduced in the same way, and with K or η as small as at the end all the time. "
    "The schedule and η were chosen after trials of six schedules: that some schedule does it is shown, not that each "
    "does.",
    paper=Setup(options=OPTIONS),
    small=Setup(options=OPTIONS),
    claims=(
        decay_claim(
            "steps-final-error",
            "Decaying K makes the final error smaller.",
            f"With 5 and with 20 clients a round, F(x) - F*, {END}, is below that with constant K.",
            "end", "K decays", "K = 20",
        ),
        decay_claim(
            "steps-fast-start",
            "Decaying K keeps the fast convergence of the beginning.",
            f"With 5 and with 20 clients a round, F(x) - F*, {START}, is below that with K = 1.",
            "start", "K decays", "K = 1",
        ),
        decay_claim(
            "rate-final-error",
            "Decaying η makes the final error smaller.",
            f"With 5 and with 20 clients a round, F(x) - F*, {END}, is below that with constant η.",
            "end", "η decays", "K = 20",
        ),
        decay_claim(
            "rate-fast-start",
            "Decaying η keeps the fast convergence of the beginning.",
            f"With 5 and with 20 clients a round, F(x) - F*, {START}, is below that with the last η from the "
            "beginning.",
            "start", "η decays", "η / 20",
        ),
    ),
    figure=decay_figure,
    study=study_decay,
    smoke_options={"rounds": 10, "seeds": 1},
)  # fmt: skip
