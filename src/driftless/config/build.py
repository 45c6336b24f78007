"""From a configuration to the objects it describes."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

import torch

from driftless.algorithm import Algorithm
from driftless.algorithms import AdaptiveClipping
from driftless.config.sections import Config, Section
from driftless.config.user_code import make_algorithm
from driftless.data import load
from driftless.data.cohorts import Cohort, parse
from driftless.data.federation import Federation
from driftless.engine.evaluation_settings import EvaluationSettings, columns_of
from driftless.engine.local import LocalTraining
from driftless.engine.server_lr import ServerSchedule
from driftless.engine.settings import EngineSettings
from driftless.engine.simulation import Simulation
from driftless.engine.stragglers import Stragglers
from driftless.errors import InputError, check_choice, check_whole
from driftless.simulate import prepare

Settings = TypeVar("Settings", LocalTraining, EvaluationSettings, ServerSchedule, EngineSettings)
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def simulation_of(config: Config) -> Simulation:
    """Everything is checked here, before any work."""
    check_choice("engine.dtype", config.engine.dtype, DTYPES)
    check_run(config)
    simulation, _ = prepare(
        algorithm_of(config),
        federation_of(config),
        config.model.name,
        weights=config.model.weights,
        rounds=config.run.rounds,
        cohort=cohort_of(config),
        local=local_of(config),
        loss=None,
        weighting=config.server.weighting,
        seed=config.run.seed,
        engine=engine_of(config),
        dtype=DTYPES[config.engine.dtype],
        server=settings_from(config.server, ServerSchedule),
        inference=config.server.inference,
        evaluate_every=config.run.evaluate_every,
        stragglers=Stragglers(config.run.straggler_alpha, config.run.straggler_lambda),
        evaluation=settings_from(config.evaluate, EvaluationSettings),
    )
    check_stopping(config, simulation)
    return simulation


def check_run(config: Config) -> None:
    """The settings that only experiments have."""
    run = config.run
    check_whole("run.evaluate_every", run.evaluate_every, 0, other=None)
    check_whole("run.checkpoint_every", run.checkpoint_every, 0)
    check_whole("run.patience", run.patience, 1, other=None)
    if run.stop_at_target and run.target is None:
        raise InputError(
            "run.stop_at_target needs run.target, the value of evaluate.monitor (default: the test accuracy) to stop "
            "at; set it, e.g. run.target=0.9."
        )
    if (run.stop_at_target or run.patience is not None) and run.evaluate_every == 0:
        raise InputError(
            "run.stop_at_target and run.patience watch evaluate.monitor (default: the test accuracy), which "
            "run.evaluate_every=0 never measures; set evaluate_every to 1 or more."
        )


def check_stopping(config: Config, simulation: Simulation) -> None:
    if (config.run.stop_at_target or config.run.patience is not None) and simulation.monitor is None:
        raise InputError(
            "run.stop_at_target and run.patience have nothing to watch: the data have no test set; set "
            f"evaluate.monitor to one of {', '.join(columns_of(simulation.evaluation))}."
        )


def algorithm_of(config: Config) -> Algorithm:
    algorithm, server = make_algorithm(config.algorithm.name, config.algorithm.model_extra or {}), config.server
    check_choice("server.clipping", server.clipping, ("none", "adaptive"))
    if server.clipping == "none":
        return algorithm
    options = {field.name: f"clipping_{field.name}" for field in fields(AdaptiveClipping) if field.name != "inner"}
    return AdaptiveClipping(algorithm, **{name: getattr(server, key) for name, key in options.items()})


def federation_of(config: Config) -> Federation:
    data = config.data
    seed = config.run.seed if data.seed is None else data.seed
    options = data.model_extra or {}
    return load(
        data.name, clients=data.clients, partition=data.partition, seed=seed, validation=data.validation, **options
    )


def engine_of(config: Config) -> EngineSettings:
    try:
        return settings_from(config.engine, EngineSettings)
    except InputError as error:  # in a configuration the setting has a section
        raise InputError(f"{'' if str(error).startswith('engine') else 'engine.'}{error}") from None


def cohort_of(config: Config) -> Cohort:
    cohort = config.run.cohort
    return parse(cohort) if isinstance(cohort, str) else cohort


def local_of(config: Config) -> LocalTraining:
    return settings_from(config.local, LocalTraining)


def settings_from(section: Section, cls: type[Settings]) -> Settings:
    """The dataclass whose fields the section has inherited; its values are checked now."""
    return cls(**{field.name: getattr(section, field.name) for field in fields(cls)})
