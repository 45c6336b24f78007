"""From a configuration to the objects it describes, and the run of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch

from driftless.algorithm import Algorithm
from driftless.algorithms import AdaptiveClipping
from driftless.data import load
from driftless.data.federation import Federation
from driftless.data.sampling import Cohort, parse
from driftless.engine.history import Record
from driftless.engine.local import LocalTraining
from driftless.engine.server_lr import ServerSchedule
from driftless.errors import InputError, check_choice
from driftless.experiment.config import Config
from driftless.experiment.user_code import algorithm_class
from driftless.simulate import Result, simulate

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def run(config: Config, on_round: Callable[[Record], object] | None = None) -> Result:
    """Run the experiment that the configuration describes."""
    return simulate(on_round=on_round, **arguments(config))


def arguments(config: Config) -> dict[str, Any]:
    """The arguments of `driftless.simulate`."""
    check_choice("engine.dtype", config.engine.dtype, DTYPES)
    return {
        "algorithm": algorithm_of(config),
        "federation": federation_of(config),
        "model": config.model.name,
        "rounds": config.run.rounds,
        "cohort": cohort_of(config),
        "local": local_of(config),
        "weighting": config.server.weighting,
        "seed": config.run.seed,
        "engine": config.engine.kind,
        "dtype": DTYPES[config.engine.dtype],
        "evaluate_every": config.run.evaluate_every,
        "server": _pick(ServerSchedule, config.server),
        "inference": config.server.inference,
        "block_size": config.engine.block_size,
    }


def algorithm_of(config: Config) -> Algorithm:
    cls = algorithm_class(config.algorithm.name)
    try:
        algorithm = cls(**(config.algorithm.model_extra or {}))
    except TypeError as error:
        raise InputError(f"algorithm '{config.algorithm.name}' cannot be made: {error}; check its options.") from error
    server = config.server
    check_choice("server.clipping", server.clipping, ("none", "adaptive"))
    if server.clipping == "none":
        return algorithm
    return AdaptiveClipping(algorithm, server.clipping_quantile, server.clipping_lr, server.clipping_initial)


def federation_of(config: Config) -> Federation:
    data = config.data
    seed = config.run.seed if data.seed is None else data.seed
    options = data.model_extra or {}
    return load(
        data.name, clients=data.clients, partition=data.partition, seed=seed, validation=data.validation, **options
    )


def cohort_of(config: Config) -> Cohort:
    cohort = config.run.cohort
    return parse(cohort) if isinstance(cohort, str) else cohort


def local_of(config: Config) -> LocalTraining:
    return _pick(LocalTraining, config.local)


def _pick(cls: type[Any], section: Any) -> Any:
    """The dataclass from the fields of the same name."""
    return cls(**{field.name: getattr(section, field.name) for field in fields(cls)})
