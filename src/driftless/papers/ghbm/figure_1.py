"""Figure 1: the error of reusing the gradients of old rounds."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from driftless.algorithms import FedAvg
from driftless.data import Federation, load
from driftless.engine.history import Record
from driftless.engine.local import LocalTraining
from driftless.models import build
from driftless.papers.ghbm.quadratics import Values
from driftless.papers.ghbm.settings import ALPHA, IID, NON_IID, TAUS
from driftless.reproduce.checks import Check, below
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.figure import Line, Panel
from driftless.reproduce.outcome import Outcome
from driftless.simulate import simulate


def reused_gradients(
    data: str, model: str, alphas: Mapping[str, float], taus: Sequence[int], rounds: int, every: int, clients: int,
    cohort: int, lr: float, steps: int, batch_size: int, engine: str, seeds: int,
) -> Values:  # fmt: skip
    """How far the mean of the last tau pseudo-gradients is from that of all clients at the current model, by tau and
    seed.

    The models are those of a FedAvg run, so that no momentum is in the pseudo-gradients themselves.
    """
    local = LocalTraining(lr=lr, steps=steps, batch_size=batch_size)
    found: Values = {"rounds": list(range(every, rounds + 1, every))}
    for labels, alpha in alphas.items():
        found[labels] = {str(tau): [] for tau in taus}
        for seed in range(seeds):
            federation = load(data, clients=clients, partition="prior-dirichlet", alpha=alpha, seed=seed)
            module = build(model, federation.input_shape, federation.classes, seed, federation.target_shape)
            deviation = Deviation(federation, module, taus, every, local, engine)
            simulate(FedAvg(), federation, module, rounds=rounds, cohort=cohort, local=local, engine=engine, seed=seed,
                     evaluate_every=0, on_round=deviation)  # fmt: skip
            for tau, values in deviation.found.items():
                found[labels][tau].append(values)
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
                         engine=self._engine, evaluate_every=0)  # fmt: skip
        return self._x - whole.x


def reuse_reduces_deviation(labels: str) -> Callable[[Outcome], Iterable[Check]]:
    def checks(outcome: Outcome) -> Iterable[Check]:
        found = outcome.values[labels]
        once = np.nanmean(found["1"], axis=1)
        for tau, each in found.items():
            if tau != "1" and not np.isnan(each).all():
                yield below(f"{labels}: relative deviation with τ = {tau}, τ = 1", np.nanmean(each, axis=1), once)

    return checks


def reuse_panels(outcome: Outcome) -> list[Panel]:
    rounds = outcome.values["rounds"]
    return [
        Panel(
            labels, "rounds", "relative deviation",
            tuple(Line(f"τ = {tau}", rounds, np.mean(each, axis=0).tolist()) for tau, each in found.items()),
        )
        for labels, found in outcome.values.items()
        if labels != "rounds"
    ]  # fmt: skip


COMMON: dict[str, Any] = {"alphas": ALPHA, "clients": 100, "cohort": 10, "lr": 0.1, "steps": 8, "batch_size": 64}
FIGURE_1 = Experiment(
    name="figure-1",
    title="The error of reusing old gradients",
    where="Figure 1, section 3.3",
    about="The mean of the last τ pseudo-gradients, each taken at its own model, is compared with the pseudo-gradient "
    "of all clients at the current model; CIFAR-100 and ResNet-20, non-iid and iid.",
    paper=Setup(options={**COMMON, "data": "cifar100", "model": "resnet-20", "taus": (1, *TAUS), "rounds": 10_000,
                         "every": 100, "engine": "single", "seeds": 5}),
    small=Setup(
        options={**COMMON, "data": "fashion-mnist", "model": "mlp", "taus": (1, 5, 10, 20), "rounds": 100, "every": 5,
                 "engine": "block", "seeds": 3},
        reduced="Fashion-MNIST and an MLP instead of CIFAR-100 and ResNet-20, along the first 100 rounds of FedAvg; "
        "the distance is divided by the norm of the pseudo-gradient of all clients, so that no momentum at all would "
        "have the deviation 1; three seeds.",
    ),
    study=reused_gradients,
    smoke_options={**COMMON, "data": "digits", "model": "logistic", "taus": (1, 2, 5), "rounds": 6, "every": 2,
                   "clients": 20, "cohort": 4, "steps": 2, "batch_size": 16, "engine": "single",
                   "seeds": 1},
    figure=reuse_panels,
    claims=(
        Claim(
            "non-iid",
            "Where clients differ, gradients of old rounds bring the momentum closer to the gradient of all clients, "
            "although they are stale.",
            "At α = 0 the deviation, averaged over the rounds, is smaller for every τ above 1 than for τ = 1.",
            reuse_reduces_deviation(NON_IID),
            paper='drawn: "beneficial despite the introduced lag"',
        ),
        Claim(
            "iid",
            "Where clients are alike, reusing old gradients does not hurt either.",
            "At α = 10,000 the deviation, averaged over the rounds, is smaller for every τ above 1 than for τ = 1.",
            reuse_reduces_deviation(IID),
            paper='drawn: "beneficial despite the introduced lag"',
        ),
    ),
)  # fmt: skip
