"""Quadratics with cyclic participation, on which the theory is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from driftless.algorithm import Algorithm
from driftless.algorithms import GHBM, FedCM, GHBMTheory
from driftless.data import Cyclic, Federation, optimum
from driftless.data.cohorts import Cohort
from driftless.engine.history import Record
from driftless.engine.local import LocalTraining
from driftless.simulate import simulate

Values = dict[str, Any]


def client_gradients(federation: Federation, x: Tensor) -> Tensor:
    """Of quadratics, whose clients all have as many rows: [clients, dimension]."""
    assert isinstance(federation.inputs, Tensor)
    rows = federation.inputs.reshape(federation.clients, -1, len(x))
    residual = rows @ x - federation.targets.reshape(federation.clients, -1)
    return (rows.mT @ residual[..., None])[..., 0] / rows.shape[1]


def gap_to_optimum(federation: Federation) -> Callable[[Tensor], float]:
    """f(x) - f* of quadratics."""
    inputs = federation.inputs
    assert isinstance(inputs, Tensor)

    def f(x: Tensor) -> float:
        return float((inputs @ x - federation.targets).square().mean()) / 2

    least = f(optimum(federation))
    return lambda x: f(x) - least


def simulate_quadratics(
    algorithm: Algorithm, federation: Federation, cohort: Cohort, lr: float, steps: int, rounds: int,
    on_round: Callable[[Record], object], seed: int = 0,
) -> None:  # fmt: skip
    """Full local gradients in double precision."""
    simulate(
        algorithm, federation, "linear", rounds=rounds, cohort=cohort, seed=seed, engine="block", dtype=torch.float64,
        local=LocalTraining(lr=lr, steps=steps, batch_size=None), evaluate_every=0, on_round=on_round,
    )  # fmt: skip


WEIGHT = 0.1
"""Of the new gradient: FedCM's alpha, the analysed form's beta, one minus GHBM's beta."""
AS_ANALYSED, AS_RUN = "GHBM as analysed, cyclic", "GHBM, cyclic"


def methods(period: int, cohort: int, lr: float) -> Iterator[tuple[str, Algorithm, Cohort, float]]:
    """GHBM takes the weight of the gradient from its learning rate, hence a tenth of it."""
    yield "FedCM, all clients", FedCM(alpha=WEIGHT), 1.0, lr
    yield "FedCM, cyclic", FedCM(alpha=WEIGHT), Cyclic(cohort), lr
    yield AS_ANALYSED, GHBMTheory(beta=WEIGHT, tau=period), Cyclic(cohort), lr
    yield AS_RUN, GHBM(beta=1 - WEIGHT, tau=period), Cyclic(cohort), WEIGHT * lr
