"""Short runs in double precision on which theorems and remarks are checked."""

from __future__ import annotations

import torch
from torch import Tensor

from driftless.algorithms import ALGORITHMS as CLASSES
from driftless.data import load
from driftless.engine.history import Record
from driftless.engine.local import LocalTraining
from driftless.models import build
from driftless.simulate import simulate


def trajectory(name: str, rounds: int, cohort: int, clients: int = 20, **options: float) -> list[Record]:
    """Records of a run on the digits; the model is small, the numbers are exact to about 1e-15."""
    federation = load("digits", clients=clients, partition="dirichlet", alpha=0.3, seed=0)
    records: list[Record] = []
    simulate(
        CLASSES[name](**options), federation, "logistic", rounds=rounds, cohort=cohort, dtype=torch.float64,
        local=LocalTraining(lr=0.1, epochs=1, batch_size=20), weighting="uniform", engine="single",
        evaluate_every=0, on_round=records.append,
    )  # fmt: skip
    return records


def initial_model() -> Tensor:
    """x^0 of the runs above: the model of seed 0."""
    federation = load("digits", clients=20, partition="dirichlet", alpha=0.3, seed=0)
    module = build("logistic", federation.input_shape, federation.classes, seed=0)
    return torch.cat([parameter.detach().double().flatten() for parameter in module.parameters()])


def distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm().clamp_min(1e-300))
