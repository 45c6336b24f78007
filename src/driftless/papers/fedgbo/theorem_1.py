"""Theorem 1 and Corollary 1: FedGBO with SGDm on quadratics whose constants are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from driftless.algorithm import Server, Vector
from driftless.algorithms import FedGBO
from driftless.algorithms.fedgbo import Biased
from driftless.algorithms.optimizers import Statistics
from driftless.data import load, optimum
from driftless.data.federation import Federation
from driftless.engine.history import Record
from driftless.engine.local import LocalTraining
from driftless.reproduce.checks import Check, exact
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.figure import Line, Panel
from driftless.reproduce.outcome import Outcome
from driftless.simulate import simulate


class LocalMeans(NamedTuple):
    """Means over a client's local steps: of the gradients at x, and of the perturbation of equation (2)."""

    g: Vector
    e: Vector


class UploadWithMeans(NamedTuple):
    delta: Vector
    seen: LocalMeans


class ServerWithMeans(NamedTuple):
    x: Vector
    statistics: Statistics
    seen: LocalMeans


@dataclass(frozen=True)
class FedGBOWithMeans(FedGBO):
    """FedGBO that also reports g_t and e_t of the theory."""

    anchor_gradient: ClassVar[bool] = True

    def init_server(self, x, facts) -> Server:
        return ServerWithMeans(*super().init_server(x, facts), LocalMeans(torch.zeros_like(x), torch.zeros_like(x)))

    def broadcast(self, server):
        return Biased(server.x, server.statistics)

    def init_local(self, msg, client, r):
        return LocalMeans(torch.zeros_like(msg.x), torch.zeros_like(msg.x))

    def direction(self, step, local, msg, client, r):
        d, _ = super().direction(step, local, msg, client, r)
        return d, LocalMeans(local.g + step.g_x, local.e + step.g - step.g_x)

    def upload(self, y, local, msg, client, r):
        return UploadWithMeans(y - msg.x, LocalMeans(local.g / r.steps, local.e / r.steps)), client

    def update(self, server, mean: Any, r) -> Server:
        return ServerWithMeans(*super().update(server, mean, r), mean.seen)


class Quadratics(NamedTuple):
    """Client objectives whose constants are known. One row of `rows[i]` is an example of client i."""

    federation: Federation
    rows: Tensor
    """[clients, examples, d]."""
    targets: Tensor
    batch: int | None
    """None: full batches. 1: one example a step."""

    @property
    def smoothness(self) -> float:
        """L: of every f_i(.; ξ), as assumption 4 has it."""
        if self.batch is None:
            return float(torch.linalg.eigvalsh(self.rows.mT @ self.rows / self.rows.shape[1]).max())
        return float(self.rows.square().sum(-1).max())

    def gradients(self, x: Tensor) -> Tensor:
        """Of every example at every point: [points, clients, examples, d]."""
        residuals = torch.einsum("ijd,td->tij", self.rows, x) - self.targets
        return residuals[..., None] * self.rows

    def loss(self, x: Tensor) -> float:
        return float((self.rows @ x - self.targets).square().mean() / 2)


class Bounds(NamedTuple):
    """R^2, G^2 and σ^2 of assumptions 2, 3 and 5, over the points that the server visited.

    The assumptions want them everywhere, where they do not exist for a quadratic. Over fewer points they are smaller,
    which makes the theorem's bound smaller and so the test stricter.
    """

    R2: float
    G2: float
    sigma2: float


def quadratics(heterogeneity: float, batch: int | None, seed: int = 1) -> Quadratics:
    federation = load("quadratics", clients=20, dimension=5, heterogeneity=heterogeneity, condition=10.0, seed=seed)
    assert isinstance(federation.inputs, Tensor)
    return Quadratics(federation, federation.inputs.view(20, 5, 5), federation.targets.view(20, 5), batch)


class Trace(NamedTuple):
    x: Tensor
    """x_0 .. x_T."""
    g: Tensor
    """Of each round."""
    e: Tensor


def linear_model(d: int) -> nn.Module:
    """At 0."""
    linear = nn.Linear(d, 1, bias=False)
    nn.init.zeros_(linear.weight)
    return nn.Sequential(linear, nn.Flatten(0))


def trace(problem: Quadratics, eta: float, beta: float, steps: int, rounds: int, seed: int) -> Trace:
    """FedGBO with the theory's η̃ = `eta`: its local learning rate is η̃/(K (1-β))."""
    model = linear_model(problem.rows.shape[-1])
    x, seen = [torch.zeros(problem.rows.shape[-1], dtype=torch.float64)], []

    def on_round(record: Record) -> None:
        x.append(record.x.clone())
        seen.append(record.server.seen)

    local = LocalTraining(lr=eta / (steps * (1 - beta)), steps=steps, batch_size=problem.batch)
    simulate(
        FedGBOWithMeans(optimizer="sgdm", beta=beta), problem.federation, model, rounds=rounds, cohort=5, local=local,
        seed=seed, engine="block", dtype=torch.float64, evaluate_every=0, on_round=on_round,
    )  # fmt: skip
    return Trace(torch.stack(x), torch.stack([one.g for one in seen]), torch.stack([one.e for one in seen]))


def perturbed(run: Trace, eta: float, beta: float) -> Tensor:
    """x_0 .. x_T of the centralised optimiser (4), (5) with the gradients g_t + e_t."""
    x, m = [run.x[0]], torch.zeros_like(run.x[0])
    for g, e in zip(run.g, run.e, strict=True):
        m = beta * m + g + e
        x.append(x[-1] - eta * m)
    return torch.stack(x)


def bounds(problem: Quadratics, x: Tensor) -> Bounds:
    each = problem.gradients(x)
    clients = each.mean(2)
    between = (clients - clients.mean(1, keepdim=True)).square().sum(-1).mean(1)
    if problem.batch is None:
        return Bounds(float(clients.square().sum(-1).max()), float(between.max()), 0.0)
    within_clients = (each - clients[:, :, None]).square().sum(-1).mean(2)
    return Bounds(float(each.square().sum(-1).max()), float(between.max()), float(within_clients.max()))


def expected_gradient(problem: Quadratics, x: Tensor, beta: float) -> float:
    """E |grad F(x_t)|^2 over the theorem's random t, P[t = j] proportional to 1 - β^(T-j), j < T."""
    T = len(x) - 1
    norms = problem.gradients(x[:-1]).mean((1, 2)).square().sum(-1)
    weights = 1 - beta ** torch.arange(T, 0, -1, dtype=torch.float64)
    return float((weights * norms).sum() / weights.sum())


def theorem_1_bound(L: float, at: Bounds, gap: float, eta: float, beta: float, steps: int, T: int) -> float:
    """The right side of (6), with B = 1: U is 1-Lipschitz in g."""
    shorter = T - beta / (1 - beta)
    Y = drift_constant(L, at, steps)
    descent = 2 * (1 - beta) / (eta * shorter) * gap
    momentum = 2 * T * eta * L * (1 + beta) * (at.R2 + eta**2 * Y) / (shorter * (1 - beta) ** 2)
    return descent + T * eta**2 * Y / shorter + momentum


def drift_constant(L: float, at: Bounds, steps: int) -> float:
    """Y."""
    return 18 * L**2 * (at.R2 + at.G2 + at.sigma2 / steps)


def corollary_1_bound(L: float, at: Bounds, gap: float, C: float, beta: float, steps: int, T: int) -> float:
    """The right side of (7)."""
    Z = 4 * C**2 * (1 - beta) ** 2 * drift_constant(L, at, steps)
    return gap / (C * T**0.5) + 4 * C * L * (1 + beta) * (at.R2 + Z / T) / ((1 - beta) * T**0.5) + Z / T


PROBLEMS: dict[str, tuple[float, int | None]] = {
    "different clients, full batches": (1.0, None),
    "different clients, batches of one": (1.0, 1),
    "equal clients, full batches": (0.0, None),
}


def study_theorem(
    rounds: int, seeds: int, steps: Sequence[int], etas: Sequence[float], long: Sequence[int]
) -> dict[str, Any]:
    """`etas` are η̃ L; `long` the rounds of the corollary."""
    cases = []
    for (title, (heterogeneity, batch)), beta, K, scaled in product(PROBLEMS.items(), (0.0, 0.9), steps, etas):
        problem = quadratics(heterogeneity, batch)
        L = problem.smoothness
        eta = scaled / L
        runs = [trace(problem, eta, beta, K, rounds, seed) for seed in range(seeds)]
        at = bounds(problem, torch.cat([run.x[:-1] for run in runs]))
        gap = problem.loss(runs[0].x[0]) - problem.loss(optimum(problem.federation))
        g2, e2 = (float(torch.cat([getattr(run, name) for run in runs]).square().sum(-1).mean()) for name in "ge")
        cases.append({
            "data": title, "beta": beta, "K": K, "eta L": scaled,
            "mismatch": max(float((perturbed(run, eta, beta) - run.x).abs().max()) for run in runs),
            "measured": float(np.mean([expected_gradient(problem, run.x, beta) for run in runs])),
            "bound": theorem_1_bound(L, at, gap, eta, beta, K, rounds),
            "trivial": at.R2,
            "drift": e2,
            "drift bound": L**2 * eta**2 * (g2 + at.G2 + at.sigma2 / K),
            "proof's drift bound": eta**2 * drift_constant(L, at, K),
        })  # fmt: skip
    return {"cases": cases, "rate": study_corollary(seeds, long)}


def study_corollary(seeds: int, long: Sequence[int], beta: float = 0.9, K: int = 5) -> list[dict[str, float]]:
    found_rates = []
    problem = quadratics(1.0, 1)
    L = problem.smoothness
    C = 1 / L
    for T in long:
        eta = (1 - beta) * 2 * C / T**0.5
        runs = [trace(problem, eta, beta, K, T, seed) for seed in range(seeds)]
        at = bounds(problem, torch.cat([run.x[:-1] for run in runs]))
        gap = problem.loss(runs[0].x[0]) - problem.loss(optimum(problem.federation))
        measured = float(np.mean([expected_gradient(problem, run.x, beta) for run in runs]))
        found_rates.append({"T": T, "measured": measured, "bound": corollary_1_bound(L, at, gap, C, beta, K, T)})
    return found_rates


def by_problem(outcome: Outcome) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    for title, beta in product(PROBLEMS, (0.0, 0.9)):
        cases = [one for one in outcome.values["cases"] if one["data"] == title and one["beta"] == beta]
        if cases:
            yield f"{title}, β = {beta:g}", cases


def is_perturbed(outcome: Outcome) -> Iterable[Check]:
    for title, cases in by_problem(outcome):
        largest = max(one["mismatch"] for one in cases)
        yield exact(f"{title}: largest difference of the iterates {largest:.2g}", largest < 1e-10)


def bound_holds(outcome: Outcome) -> Iterable[Check]:
    for title, cases in by_problem(outcome):
        loose = [one["bound"] / one["measured"] for one in cases]
        useful = sum(one["bound"] < one["trivial"] for one in cases)
        held = sum(one["measured"] <= one["bound"] for one in cases)
        seen = f"{held} of {len(cases)} settings below the bound, which is {min(loose):.3g} to {max(loose):.3g} times"
        yield exact(f"{title}: {seen} the measured value and smaller than R² in {useful}", held == len(cases))


def drift_holds(key: str) -> Callable[[Outcome], Iterable[Check]]:
    def checks(outcome: Outcome) -> Iterable[Check]:
        for title, cases in by_problem(outcome):
            moving = [one for one in cases if one["K"] > 1]
            if moving:
                worst = max(one["drift"] / one[key] for one in moving)
                held = sum(one["drift"] <= one[key] for one in moving)
                seen = f"{held} of {len(moving)} settings, the largest is {worst:.3g} times the bound"
                yield exact(f"{title}: below in {seen}", held == len(moving))

    return checks


def rate_holds(outcome: Outcome) -> Iterable[Check]:
    values = outcome.values["rate"]
    for one in values:
        text = f"T = {one['T']}, mean squared gradient {one['measured']:.3g}, its bound {one['bound']:.3g}"
        yield exact(text, one["measured"] < one["bound"])
    for one, later in pairwise(values):
        most = 1.1 * one["measured"] * (one["T"] / later["T"]) ** 0.5
        text = (
            f"T = {later['T']}: {later['measured']:.3g}, 1.1 √({one['T']}/{later['T']}) of T = {one['T']}: {most:.3g}"
        )
        yield exact(text, later["measured"] < most)


def theorem_figure(outcome: Outcome) -> list[Panel]:
    """With momentum; without it the panels look alike."""
    panels = []
    for title, cases in by_problem(outcome):
        if cases[0]["beta"] == 0:
            continue
        lines = []
        for K in dict.fromkeys(one["K"] for one in cases):
            points = [one for one in cases if one["K"] == K]
            lines += [Line(f"{name}, K = {K}", [one["eta L"] for one in points], [one[key] for one in points])
                      for name, key in (("measured", "measured"), ("bound", "bound"))]  # fmt: skip
        panels.append(Panel(title, "η̃ L", "mean squared gradient", tuple(lines), log_x=True, log_y=True, marks=True))
    rates = outcome.values["rate"]
    lines = tuple(Line(key, [one["T"] for one in rates], [one[key] for one in rates]) for key in ("measured", "bound"))
    title = "corollary 1: η̃ falls as 1/√T"
    return [*panels, Panel(title, "T", "mean squared gradient", lines, log_x=True, log_y=True, marks=True)]


OPTIONS = {"rounds": 150, "seeds": 2, "steps": [1, 5, 20], "etas": [0.003, 0.03, 0.3], "long": [100, 400, 1600]}
THEOREM_1 = Experiment(
    name="theorem-1",
    title="Convergence bound on quadratics",
    where="Theorem 1, section 3",
    about="FedGBO with SGDm as a centralised optimiser with perturbed gradients, and the bound on its mean squared "
    "gradient. Checked in double precision on 20 quadratics of 5 dimensions, 5 of them a round, with K = 1, 5, 20 and "
    "three step sizes; the constants L, R, G, σ are computed, R, G and σ over the points visited, which is as small as "
    "they can be.",
    paper=Setup(options=OPTIONS),
    small=Setup(options=OPTIONS),
    claims=(
        Claim(
            "perturbed-sgdm",
            "FedGBO with SGDm is centralised SGDm, equations (4) and (5), on the gradient at x plus the perturbation "
            "(2).",
            "With η̃ = K η (1-β), the iterates of (4) and (5) with the measured g_t + e_t differ from FedGBO's by less "
            "than 1e-10.",
            is_perturbed,
            paper="equal",
        ),
        Claim(
            "bound",
            "The mean squared gradient at a random round is below the bound (6).",
            "In every setting, the mean over seeds of |∇F(x_t)|², t weighted as in the theorem, is at most the right "
            "side of (6) with B = 1.",
            bound_holds,
            paper="proved",
        ),
        Claim(
            "drift",
            "The perturbation is bounded by (3): the squared gradient, G² and σ²/K, times B²L²η̃².",
            "In every setting with K > 1, the mean of |e_t|² over rounds and seeds is at most the right side of (3), "
            "as printed, with B = 1 and the mean of |g_t|².",
            drift_holds("drift bound"),
            paper="cited from Mime",
        ),
        Claim(
            "drift-in-proof",
            "The proof's own form of it, η̃²Y, which has a factor 18 and R² for the squared gradient, bounds the "
            "perturbation.",
            "In every setting with K > 1, the mean of |e_t|² over rounds and seeds is at most η̃²Y.",
            drift_holds("proof's drift bound"),
            paper="used in the proof",
        ),
        Claim(
            "rate",
            "With η̃ = (1-β) 2C/√T the mean squared gradient falls as 1/√T (Corollary 1).",
            "For T = 100, 400, 1600, C = 1/L, β = 0.9, K = 5, batches of one: below the right side of (7), and at most "
            "1.1 times what 1/√T makes of the value for the shorter run.",
            rate_holds,
            paper="O(1/√T)",
        ),
    ),
    figure=theorem_figure,
    study=study_theorem,
    kind="identity",
    smoke_options={"rounds": 12, "seeds": 1, "steps": [2], "etas": [0.03], "long": [12]},
)
