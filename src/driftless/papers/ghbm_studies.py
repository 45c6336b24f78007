"""The theory of the GHBM paper, computed: gradients of old rounds, bounds, identities and quadratics.

Every study takes the options of an experiment and returns numbers that JSON can hold; `ghbm.py` judges them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from driftless.algorithm import Algorithm
from driftless.algorithms import GHBM, FedAvg, FedCM, GHBMTheory, ServerGHBM
from driftless.data import Cyclic, Federation, load, optimum
from driftless.data.cohorts import Cohort
from driftless.engine.history import Record
from driftless.engine.local import LocalTraining
from driftless.errors import Diverged
from driftless.models import build
from driftless.papers import cost_tables
from driftless.random import stream
from driftless.simulate import simulate

Values = dict[str, Any]


# ---- Figure 1: the gradients of old rounds --------------------------------------------------------------------------


def reused_gradients(
    data: str, model: str, alphas: Mapping[str, float], taus: Sequence[int], rounds: int, every: int, clients: int,
    cohort: int, lr: float, steps: int, batch_size: int, engine: str,
) -> Values:  # fmt: skip
    """How far the mean of the last tau pseudo-gradients is from that of all clients at the current model.

    The models are those of a FedAvg run, so that no momentum is in the pseudo-gradients themselves.
    """
    local = LocalTraining(lr=lr, steps=steps, batch_size=batch_size)
    found: Values = {"rounds": list(range(every, rounds + 1, every))}
    for labels, alpha in alphas.items():
        federation = load(data, clients=clients, partition="prior-dirichlet", alpha=alpha)
        module = build(model, federation.input_shape, federation.classes, 0, federation.target_shape)
        deviation = Deviation(federation, module, taus, every, local, engine)
        simulate(FedAvg(), federation, module, rounds=rounds, cohort=cohort, local=local, engine=engine, compile="off",
                 threads=1, evaluate_every=0, on_round=deviation)  # fmt: skip
        found[labels] = deviation.found
    return found


class Deviation:
    """Called after each round; every `every` rounds one number a tau, NaN while fewer than tau rounds are over."""

    def __init__(
        self,
        federation: Federation,
        module: nn.Module,
        taus: Sequence[int],
        every: int,
        local: LocalTraining,
        engine: str,
    ) -> None:
        self._federation, self._module = federation, deepcopy(module)
        self._every, self._local, self._engine = every, local, engine
        self._x = parameters_to_vector(module.parameters()).detach().clone()
        self._recent: deque[Tensor] = deque(maxlen=max(taus))
        self.found: dict[str, list[float]] = {str(tau): [] for tau in taus}

    def __call__(self, record: Record) -> None:
        self._recent.append(self._x - record.x)
        if record.round % self._every == 0:
            wanted = self._of_all_clients(record.round)
            for tau, values in self.found.items():
                latest = list(self._recent)[-int(tau) :]
                off = torch.linalg.vector_norm(torch.stack(latest).mean(0) - wanted) / torch.linalg.vector_norm(wanted)
                values.append(float(off) if len(latest) == int(tau) else math.nan)
        self._x = record.x.clone()

    def _of_all_clients(self, seed: int) -> Tensor:
        vector_to_parameters(self._x, self._module.parameters())
        whole = simulate(FedAvg(), self._federation, self._module, rounds=1, cohort=1.0, local=self._local, seed=seed,
                         engine=self._engine, compile="off", threads=1, evaluate_every=0)  # fmt: skip
        return self._x - whole.x


# ---- Lemma 4.4 and Corollary 4.5: how well some clients stand for all ------------------------------------------------


def client_gradients(federation: Federation, x: Tensor) -> Tensor:
    """Of quadratics, whose clients all have as many rows: [clients, dimension]."""
    rows = federation.inputs.reshape(federation.clients, -1, len(x))
    residual = rows @ x - federation.targets.reshape(federation.clients, -1)
    return (rows.mT @ residual[..., None])[..., 0] / rows.shape[1]


def one_against_all(clients: int, dimension: int) -> Federation:
    """Quadratics of curvature 1 that agree but for one client; the mean of all gradients is 0 at x = 0."""
    away = torch.ones(dimension, dtype=torch.float64)
    optima = torch.stack([(clients - 1) * away] + [-away] * (clients - 1))
    scale = math.sqrt(dimension)
    rows = (scale * torch.eye(dimension, dtype=torch.float64)).repeat(clients, 1)
    return Federation(rows, scale * optima.reshape(-1), np.arange(clients + 1) * dimension, name="one against all")


def heterogeneity_bounds(
    clients: int, cohort: int, dimension: int, rounds: int, seeds: int, draws: int, outlier_clients: Sequence[int]
) -> Values:
    """The largest ratio of the error to the bound, over rounds, tau and seeds.

    Corollary 4.5 on the models of a FedAvg run on random quadratics and at the optimum of quadratics where one client
    stands against all others; Lemma 4.4 as a mean over random cohorts. G^2 is the dissimilarity at the model itself,
    which is at most the supremum that the paper takes.
    """
    period = clients // cohort
    cyclic: dict[str, float] = {}
    uniform: dict[str, float] = {}
    for seed in range(seeds):
        federation = load("quadratics", clients=clients, dimension=dimension, seed=seed)
        order = stream(seed, "cycle").permutation(clients)
        models: list[Tensor] = []
        simulate(FedAvg(), federation, "linear", rounds=rounds, cohort=Cyclic(cohort), seed=seed, engine="block",
                 local=LocalTraining(lr=0.5, steps=1, batch_size=None), dtype=torch.float64, compile="off", threads=1,
                 evaluate_every=0, on_round=lambda record, seen=models: seen.append(record.x.clone()))  # fmt: skip
        for t, x in enumerate(models):
            gradients = client_gradients(federation, x)
            for tau in range(1, period + 1):
                groups = [(t - k) % period for k in range(tau)]
                chosen = np.concatenate([order[g * cohort : (g + 1) * cohort] for g in groups])
                worse(cyclic, tau, error_to_bound(gradients, chosen, tau * cohort / clients))
        gradients, draw = client_gradients(federation, models[-1]), stream(seed, "draws")
        for tau in (1, period, 3 * period):
            worse(uniform, tau, expected_ratio(gradients, cohort, tau, draws, draw))
    outliers = {str(n): one_client_ratio(n, dimension) for n in outlier_clients}
    return {"cyclic": cyclic, "uniform": uniform, "one against all": outliers, "period": period}


def worse(found: dict[str, float], tau: int, ratio: float) -> None:
    found[str(tau)] = max(found.get(str(tau), 0.0), ratio)


def squares(gradients: Tensor) -> tuple[Tensor, float]:
    """The mean gradient, and G^2 plus its squared norm."""
    mean = gradients.mean(0)
    return mean, float((gradients - mean).square().sum(1).mean() + mean.square().sum())


def error_to_bound(gradients: Tensor, chosen: np.ndarray, share: float) -> float:
    """The error of the mean over some clients, divided by 8 (1 - share)^2 (G^2 + |mean|^2); the error itself where the
    bound is 0, in units of G^2 + |mean|^2."""
    mean, size = squares(gradients)
    error = float((gradients[torch.from_numpy(chosen)].mean(0) - mean).square().sum())
    return error / size / (8 * (1 - share) ** 2 if share < 1 else 1)


def expected_ratio(gradients: Tensor, cohort: int, tau: int, draws: int, rng: np.random.Generator) -> float:
    """Lemma 4.4, both expectations as means over draws of tau uniform cohorts."""
    mean, size = squares(gradients)
    clients = len(gradients)
    error = bound = 0.0
    for _ in range(draws):
        seen = np.unique(np.concatenate([rng.choice(clients, cohort, replace=False) for _ in range(tau)]))
        error += float((gradients[torch.from_numpy(seen)].mean(0) - mean).square().sum())
        bound += 8 * (1 - len(seen) / clients) ** 2 * size
    return error / bound if bound else 0.0


def one_client_ratio(clients: int, dimension: int) -> float:
    """Corollary 4.5 in the round of the one client that differs, cohorts of one, tau = 1."""
    gradients = client_gradients(one_against_all(clients, dimension), torch.zeros(dimension, dtype=torch.float64))
    return error_to_bound(gradients, np.array([0]), 1 / clients)


# ---- Lemmas B.2 and B.3: two forms of the same momentum --------------------------------------------------------------


def momentum_forms(taus: Sequence[int], rounds: int, beta: float, clients: int, cohort: int) -> Values:
    """The largest distance between the heavy-ball form, as `server-ghbm` runs it, and the sum of old momentum terms."""
    federation = load("quadratics", clients=clients)
    found: Values = {}
    for tau in taus:
        records: list[Record] = []
        simulate(ServerGHBM(beta=beta, tau=tau), federation, "linear", rounds=rounds, cohort=cohort, engine="block",
                 local=LocalTraining(lr=0.2, steps=3, batch_size=None), dtype=torch.float64, compile="off", threads=1,
                 evaluate_every=0, on_round=records.append)  # fmt: skip
        found[str(tau)] = apart_from_sums(records, tau, beta)
    return found


def apart_from_sums(records: Sequence[Record], tau: int, beta: float) -> float:
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


# ---- Figure 9 and Theorem 4.7: quadratics with cyclic participation --------------------------------------------------


def gap_to_optimum(federation: Federation) -> Callable[[Tensor], float]:
    """f(x) - f* of quadratics."""

    def f(x: Tensor) -> float:
        return float((federation.inputs @ x - federation.targets).square().mean()) / 2

    least = f(optimum(federation))
    return lambda x: f(x) - least


def gaps(
    algorithm: Algorithm, federation: Federation, cohort: Cohort, lr: float, steps: int, rounds: int, seed: int = 0
) -> list[float]:
    """f(x) - f* after each round; infinite from where a run diverges."""
    gap, found = gap_to_optimum(federation), []
    try:
        simulate(algorithm, federation, "linear", rounds=rounds, cohort=cohort, engine="block", dtype=torch.float64,
                 local=LocalTraining(lr=lr, steps=steps, batch_size=None), compile="off", threads=1, evaluate_every=0,
                 seed=seed, on_round=lambda record: found.append(gap(record.x)))  # fmt: skip
    except Diverged:
        found += [math.inf] * (rounds - len(found))
    return found


WEIGHT = 0.1
"""Of the new gradient: FedCM's alpha, the analysed form's beta, one minus GHBM's beta."""


def contenders(period: int, cohort: int, lr: float) -> Iterator[tuple[str, Algorithm, Cohort, float]]:
    """GHBM takes the weight of the gradient from its learning rate, hence a tenth of it."""
    yield "FedCM, all clients", FedCM(alpha=WEIGHT), 1.0, lr
    yield "FedCM, cyclic", FedCM(alpha=WEIGHT), Cyclic(cohort), lr
    yield "GHBM as analysed, cyclic", GHBMTheory(beta=WEIGHT, tau=period), Cyclic(cohort), lr
    yield "GHBM, cyclic", GHBM(beta=1 - WEIGHT, tau=period), Cyclic(cohort), WEIGHT * lr


def cyclic_quadratics(clients: int, cohort: int, steps: Sequence[int], rounds: int, lr: float, seeds: int) -> Values:
    """Per number of local steps and method the mean gap over the seeds; lr is that of a round, divided by the steps."""
    found: Values = {}
    for number in steps:
        found[str(number)] = {}
        for name, algorithm, schedule, rate in contenders(clients // cohort, cohort, lr / number):
            each = [
                gaps(algorithm, load("quadratics", clients=clients, seed=seed), schedule, rate, number, rounds, seed)
                for seed in range(seeds)
            ]
            found[str(number)][name] = np.mean(each, axis=0).tolist()
    return found


def any_heterogeneity(
    clients: int, cohort: int, heterogeneity: Sequence[float], rounds: int, lr: float, seeds: int
) -> Values:
    """Per degree of heterogeneity, with one local step: the gap at the end and the sum of squared gradient norms over
    the first half and over all rounds, of FedCM and of GHBM as analysed, both with cyclic participation."""
    found: Values = {}
    for degree in heterogeneity:
        rows: dict[str, list[list[float]]] = {}
        for seed in range(seeds):
            federation = load("quadratics", clients=clients, heterogeneity=degree, seed=seed)
            for name, algorithm, schedule, rate in contenders(clients // cohort, cohort, lr):
                if name in ("FedCM, cyclic", "GHBM as analysed, cyclic"):
                    rows.setdefault(name, []).append(summary(algorithm, federation, schedule, rate, rounds, seed))
        found[f"{degree:g}"] = {name: np.mean(each, axis=0).tolist() for name, each in rows.items()}
    return found


def summary(
    algorithm: Algorithm, federation: Federation, cohort: Cohort, lr: float, rounds: int, seed: int
) -> list[float]:
    """The mean gap of the last tenth of the rounds, the sum of |grad f|^2 over the first half, and over all."""
    models: list[Tensor] = []
    simulate(algorithm, federation, "linear", rounds=rounds, cohort=cohort, engine="block", dtype=torch.float64,
             local=LocalTraining(lr=lr, steps=1, batch_size=None), compile="off", threads=1, evaluate_every=0,
             seed=seed, on_round=lambda record: models.append(record.x.clone()))  # fmt: skip
    gap = gap_to_optimum(federation)
    norms = [float(client_gradients(federation, x).mean(0).square().sum()) for x in models]
    last = models[-max(1, rounds // 10) :]
    return [sum(map(gap, last)) / len(last), sum(norms[: rounds // 2]), sum(norms)]


# ---- Table 4: vectors exchanged -------------------------------------------------------------------------------------


def overheads() -> Values:
    """Printed and derived vectors a round, in units of FedAvg's."""
    return {cell.algorithm: [cell.printed, cell.derived, cell.difference] for cell in cost_tables.ghbm()}
