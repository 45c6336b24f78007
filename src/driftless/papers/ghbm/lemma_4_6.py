"""Lemma 4.6: how far the gradients of the last τ rounds are from those of the same clients at the newest model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from driftless.algorithms import GHBMTheory
from driftless.data import Cyclic, Federation, load
from driftless.engine.history import Record
from driftless.papers.ghbm.quadratics import WEIGHT, Values, simulate_quadratics
from driftless.reproduce.checks import Check, exact
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome


def lemma_4_6(
    clients: int, cohort: int, dimension: int, heterogeneity: float, steps: Sequence[int], lr: float, periods: int,
    orders: int, slow_taus: Sequence[int], slow_lr: float,
) -> Values:  # fmt: skip
    """The error of the lemma in units of its bound, along runs of GHBM as analysed with full local gradients, so that
    the lemma's noise is 0, and with cyclic participation.

    `random`: random quadratics, for each number of local steps and each tau up to the period: the largest ratio in a
    round of a run ("round"), and of the means over orders of the clients, which the lemma's expectation is ("mean").
    `slow`: equal clients, cohorts of one, one local step, tau = 1/C, so small a rate that nothing but the lag is left:
    by tau the largest ratio to the bound as it is printed, and to the one with (tau - 1)/2 times its term of the lag.
    Equation (56) of the proof takes the square of a sum of steps for the sum of their squares; with the inequality of
    Cauchy and Schwarz in its place the factor is at most (tau - 1)/2.
    `mismatch`: the largest distance between the models and momenta of the runs and those that the error is computed of.
    """
    period = clients // cohort
    federation = load("quadratics", clients=clients, dimension=dimension, heterogeneity=heterogeneity)
    random: dict[str, dict[str, dict[str, float]]] = {}
    mismatches: list[float] = []
    for number in steps:
        found = random[str(number)] = {}
        for tau in sorted({1, min(2, period), max(1, period // 2), period}):
            sides, mismatch = measured(federation, cohort, tau, number, lr / number, periods * period, orders)
            found[str(tau)] = {"round": largest_ratio(sides), "mean": largest_ratio(sides.mean(1))}
            mismatches.append(mismatch)
    slow: dict[str, dict[str, float]] = {}
    for tau in slow_taus:
        equal = load("quadratics", clients=tau, dimension=dimension, heterogeneity=0.0, condition=1.0)
        sides, mismatch = measured(equal, 1, tau, 1, slow_lr, 2 * tau + START, 1)
        slow[str(tau)] = {"printed": largest_ratio(sides), "repaired": largest_ratio(sides, max(1, (tau - 1) / 2))}
        mismatches.append(mismatch)
    return {"random": random, "slow": slow, "period": period, "mismatch": max(mismatches)}


START = 60
"""Rounds after which less than 1 % of the momentum's zero at the start is left: 0.9^60."""


def largest_ratio(sides: np.ndarray, lag_factor: float = 1) -> float:
    """Of the error to 3 (drift + lag)."""
    error, drift, lag = sides
    return float(np.max(error / (3 * (drift + lag_factor * lag))))


def measured(
    federation: Federation, cohort: int, tau: int, steps: int, lr: float, rounds: int, orders: int
) -> tuple[np.ndarray, float]:
    """The error and the bound's terms of drift and lag, [3, orders, rounds from tau on]; the largest mismatch."""
    found, mismatches, smoothness = [], [], largest_curvature(federation)
    for seed in range(orders):
        records: list[Record] = []
        simulate_quadratics(
            GHBMTheory(beta=WEIGHT, tau=tau), federation, Cyclic(cohort), lr, steps, rounds, records.append, seed
        )
        path, mismatch = retrace(federation, records, tau, steps, lr)
        ends = range(tau, rounds + 1)
        found.append([error_and_terms(federation, path[t - tau : t], smoothness, lr * steps) for t in ends])
        mismatches.append(mismatch)
    return np.array(found).transpose(2, 0, 1), max(mismatches)


class Passed(NamedTuple):
    """A round t as the lemma has it."""

    cohort: Tensor
    """S^t."""
    x: Tensor
    """θ^(t-1)."""
    g: Tensor
    """The cohort's mean gradient over all local steps."""
    drift: float
    """U_t, over all clients: those that do not take part would have made the same local steps."""
    gradients: Tensor
    """∇f_i(θ^(t-1)) of all clients."""
    momentum: Tensor
    """m^(t+1)."""


def retrace(
    federation: Federation, records: Sequence[Record], tau: int, steps: int, lr: float
) -> tuple[list[Passed], float]:
    """Algorithm 3 by hand, with the local steps of all clients; and its largest distance to the run."""
    x = records[0].x + lr * steps * records[0].server.m  # x^0: the first round has taken its step from there
    momentum, path, mismatch = torch.zeros_like(x), list[Passed](), 0.0
    for record in records:
        everywhere = x.expand(federation.clients, -1)
        y, g, drift = everywhere, torch.zeros_like(everywhere), 0.0
        for _ in range(steps):
            gradients = gradients_at(federation, y)
            y, g = y - lr * ((1 - WEIGHT) * momentum + WEIGHT * gradients), g + gradients / steps
            drift += float((y - x).square().sum(1).mean()) / steps
        cohort = torch.tensor(record.cohort)
        last = [*(passed.g for passed in path), g[cohort].mean(0)][-tau:]
        momentum = (1 - WEIGHT) * momentum + WEIGHT / tau * torch.stack(last).sum(0)
        path.append(Passed(cohort, x, last[-1], drift, gradients_at(federation, everywhere), momentum))
        x = x - lr * steps * momentum
        mismatch = max(mismatch, float((x - record.x).abs().max()), float((momentum - record.server.m).abs().max()))
    return path, mismatch


def error_and_terms(
    federation: Federation, last: Sequence[Passed], smoothness: float, eta: float
) -> tuple[float, float, float]:
    """The left side of the lemma after the last tau rounds, and the terms (b) and (c) of its right side.

    `eta`: the length of a server step, in units of the momentum.
    """
    seen = torch.cat([passed.cohort for passed in last])
    lagging = torch.stack([passed.g for passed in last]).mean(0)
    error = float((lagging - last[-1].gradients[seen].mean(0)).square().sum())
    drift = smoothness**2 / len(last) * sum(passed.drift for passed in last)
    steps = [(passed.gradients.mean(0), passed.momentum) for passed in last[:-1]]
    moved = sum(float(mean.square().sum() + (mean - m).square().sum()) for mean, m in steps)
    return error, drift, 2 * smoothness**2 * eta**2 * moved


def gradients_at(federation: Federation, y: Tensor) -> Tensor:
    """Of each client at its own model, [clients, dimension]."""
    rows, targets = rows_of(federation)
    residual = (rows @ y[..., None])[..., 0] - targets
    return (rows.mT @ residual[..., None])[..., 0] / rows.shape[1]


def largest_curvature(federation: Federation) -> float:
    """L: the largest eigenvalue of all A_i."""
    rows, _ = rows_of(federation)
    return float(torch.linalg.matrix_norm(rows, 2).max()) ** 2 / rows.shape[1]


def rows_of(federation: Federation) -> tuple[Tensor, Tensor]:
    """[clients, rows, dimension], [clients, rows]."""
    assert isinstance(federation.inputs, Tensor)
    rows = federation.inputs.reshape(federation.clients, -1, federation.inputs.shape[1])
    return rows, federation.targets.reshape(federation.clients, -1)


OPTIONS: Values = {"clients": 20, "cohort": 2, "dimension": 10, "heterogeneity": 1.0, "steps": (1, 5), "lr": 0.5,
                   "periods": 6, "orders": 5, "slow_taus": (2, 5, 10, 20, 30, 50, 100), "slow_lr": 1e-5}  # fmt: skip
SMOKE = {**OPTIONS, "clients": 6, "steps": (2,), "periods": 3, "orders": 2, "slow_taus": (2, 5)}


def holds_on_random_quadratics(outcome: Outcome) -> Iterable[Check]:
    for steps, by_tau in outcome.values["random"].items():
        for tau, seen in by_tau.items():
            yield exact(f"J = {steps}, τ = {tau}: error over bound {seen['mean']:.3g}", seen["mean"] <= 1)


def holds_with_lag(form: str) -> Callable[[Outcome], Iterable[Check]]:
    """With slow steps, for every delay up to 1/C."""

    def checks(outcome: Outcome) -> Iterable[Check]:
        for tau, seen in outcome.values["slow"].items():
            yield exact(f"τ = {tau}: error over bound {seen[form]:.3g}", seen[form] <= 1)

    return checks


LEMMA_4_6 = Experiment(
    name="lemma-4-6",
    title="Bounded error of the momentum update",
    where="Lemma 4.6, section 4.2 and its proof",
    about="The distance between the gradients of the last τ rounds and those of the same clients at the newest model, "
    "beside the lemma's bound, along runs of GHBM as analysed (Algorithm 3) with full local gradients and cyclic "
    "participation. The models are retraced by hand.",
    paper=Setup(options=OPTIONS),
    small=Setup(options=OPTIONS),
    study=lemma_4_6,
    kind="identity",
    smoke_options=SMOKE,
    claims=(
        Claim(
            "random",
            "The error is below the sum of noise, client drift and gradient lag.",
            "On random quadratics of 20 clients, two a round, for each number of local steps and each τ, the mean "
            "error over five orders of the clients is at most the bound.",
            holds_on_random_quadratics,
            paper="proved",
        ),
        Claim(
            "any-delay",
            "The bound holds for every τ, its lag growing linearly with τ.",
            "With equal clients, τ = 1/C from 2 to 100 and steps so slow that only the lag is left, the error is at "
            "most the bound.",
            holds_with_lag("printed"),
            paper="proved; equation (56) takes the square of a sum of steps for the sum of their squares",
        ),
        Claim(
            "any-delay-repaired",
            "The bound holds for every τ with (τ - 1)/2 times the term of the lag, which Cauchy and Schwarz give for "
            "equation (56).",
            "As above, with that factor.",
            holds_with_lag("repaired"),
            paper="not in the paper",
        ),
    ),
)
