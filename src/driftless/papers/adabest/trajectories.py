"""Short runs in double precision on which theorems and remarks are checked."""

from __future__ import annotations

import torch
from torch import Tensor

from driftless.algorithm import Algorithm
from driftless.data import Federation, load
from driftless.engine.history import Record
from driftless.engine.local import LocalTraining
from driftless.models import build
from driftless.simulate import simulate


def digits(clients: int, seed: int = 0, sizes: str = "balanced") -> Federation:
    return load("digits", clients=clients, partition="dirichlet", alpha=0.3, sizes=sizes, seed=seed)


def trajectory(
    algorithm: Algorithm, rounds: int, cohort: int, clients: int = 20, seed: int = 0, sizes: str = "balanced"
) -> list[Record]:
    """Records of a run on the digits; the model is small, the numbers are exact to about 1e-15."""
    federation = digits(clients, seed, sizes)
    records: list[Record] = []
    simulate(
        algorithm, federation, "logistic", rounds=rounds, cohort=cohort, dtype=torch.float64,
        local=LocalTraining(lr=0.1, epochs=1, batch_size=20), weighting="uniform", engine="single",
        evaluate_every=0, seed=seed, on_round=records.append,
    )  # fmt: skip
    return records


def initial_model(seed: int = 0) -> Tensor:
    """x^0 of the runs above."""
    federation = digits(20, seed)
    module = build("logistic", federation.input_shape, federation.classes, seed=seed)
    return torch.cat([parameter.detach().double().flatten() for parameter in module.parameters()])


def distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm().clamp_min(1e-300))
