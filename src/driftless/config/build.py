"""From a configuration to the objects it describes: ours by name, the user's by FILE.py:NAME or from a script."""

from __future__ import annotations

import inspect
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn

from driftless.algorithm import Algorithm
from driftless.algorithms import AdaptiveClipping
from driftless.config.sections import Config, Privacy, Section
from driftless.config.user_code import is_own, made_by, make_algorithm, own_object, parameters_of
from driftless.data import load
from driftless.data.cohorts import Cohort, parse
from driftless.data.division import AnyPartition
from driftless.data.federation import Federation
from driftless.data.load import as_federation
from driftless.engine.aggregation import Aggregation
from driftless.engine.check import check_single
from driftless.engine.device import PRECISIONS
from driftless.engine.evaluation_settings import EvaluationSettings, columns_of
from driftless.engine.faults import Faults
from driftless.engine.local import LocalTraining
from driftless.engine.losses import LOSSES, Loss
from driftless.engine.resident import Output
from driftless.engine.server_lr import ServerSchedule
from driftless.engine.settings import EngineSettings
from driftless.engine.simulation import Simulation
from driftless.engine.stragglers import Stragglers
from driftless.errors import InputError, check_choice, check_whole, short_repr, unknown
from driftless.privacy import DifferentialPrivacy
from driftless.random import torch_stream
from driftless.simulate import prepare

Settings = TypeVar("Settings", LocalTraining, ServerSchedule, Faults, EngineSettings)
LONGEST_LABEL = 60
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in PRECISIONS}


def simulation_of(config: Config) -> Simulation:
    """Everything is checked here, before any work."""
    check_choice("engine.precision", config.engine.precision, DTYPES)
    check_run(config)
    algorithm, federation = algorithm_of(config), federation_of(config)
    model = model_of(config, federation)
    simulation = prepare(
        algorithm,
        federation,
        model,
        weights=config.model.weights,
        rounds=config.run.rounds,
        cohort=cohort_of(config),
        local=local_of(config),
        loss=loss_of(config),
        weighting=config.server.weighting,
        seed=config.run.seed,
        engine=engine_of(config),
        dtype=DTYPES[config.engine.precision],
        device=config.engine.device,
        server=settings_from(config.server, ServerSchedule),
        faults=settings_from(config.faults, Faults),
        inference=config.server.inference,
        evaluate_every=config.run.evaluate_every,
        stragglers=Stragglers(config.run.straggler_alpha, config.run.straggler_lambda),
        evaluation=evaluation_settings_of(config),
        output=output_of(config),
        aggregation=aggregation_of(config),
    )
    if isinstance(model, nn.Module):
        check_single(simulation.workload, model)
    check_stopping(config, simulation)
    return simulation


def check_run(config: Config) -> None:
    """The settings that only experiments have."""
    run = config.run
    check_whole("run.evaluate_every", run.evaluate_every, 0, other=None)
    check_whole("run.checkpoint_every", run.checkpoint_every, 0)
    check_whole("run.patience", run.patience, 1, other=None)
    if run.label is not None and not (run.label.isprintable() and 0 < len(run.label.strip()) <= LONGEST_LABEL):
        raise InputError(
            f"run.label must be a line of 1 to {LONGEST_LABEL} characters, got {short_repr(run.label)}; it names a "
            "curve in tables and figures."
        )
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
    algorithm = make_algorithm(config.algorithm.name, config.algorithm.model_extra or {})
    algorithm, privacy = clipped(algorithm, config), config.privacy
    if privacy.is_on:
        return DifferentialPrivacy(algorithm, **privacy.model_dump())
    for name, value in privacy:
        if value != getattr(Privacy(), name):
            raise InputError(
                f"privacy.{name}={value} has no effect without noise; set privacy.target_epsilon, such as 8, or "
                "privacy.noise_multiplier."
            )
    return algorithm


def clipped(algorithm: Algorithm, config: Config) -> Algorithm:
    server = config.server
    check_choice("server.clipping", server.clipping, ("none", "adaptive"))
    if server.clipping == "none":
        return algorithm
    options = {field.name: f"clipping_{field.name}" for field in fields(AdaptiveClipping) if field.name != "inner"}
    return AdaptiveClipping(algorithm, **{name: getattr(server, key) for name, key in options.items()})


def aggregation_of(config: Config) -> Aggregation:
    options = {field.name: f"aggregation_{field.name}" for field in fields(Aggregation) if field.name != "rule"}
    return Aggregation(
        config.server.aggregation, **{name: getattr(config.server, key) for name, key in options.items()}
    )


def federation_of(config: Config) -> Federation:
    data = config.data
    seed = config.run.seed if data.seed is None else data.seed
    options = data.model_extra or {}
    if is_own(data.name):
        return own_federation(config, seed)
    return load(
        data.name, clients=data.clients, partition=partition_of(config), seed=seed, validation=data.validation,
        client_test=data.client_test, **options,
    )  # fmt: skip


def own_federation(config: Config, seed: int) -> Federation:
    """The user's: a Federation or a data set, or what a function returns; its parameters are options."""
    data, usage = config.data, "data=FILE.py:NAME"
    found, options, clients = own_object(data.name, usage), dict(data.model_extra or {}), data.clients
    if is_factory(found):
        taken = {key: options.pop(key) for key in parameters_of(found) if key in options}
        supplied: dict[str, Any] = {"seed": seed}
        if "clients" in parameters_of(found):
            supplied |= {} if clients is None else {"clients": clients}
            clients = None
        found = made_by(data.name, found, supplied, taken)
    return as_federation(
        found, clients=clients, partition=partition_of(config), seed=seed, validation=data.validation,
        client_test=data.client_test, name=data.name.rpartition(":")[2], **options,
    )  # fmt: skip


def is_factory(found: Any) -> bool:
    """Functions and classes make data; a Federation, a data set or Examples are data."""
    return inspect.isroutine(found) or isinstance(found, type | partial)


def partition_of(config: Config) -> AnyPartition | None:
    partition = config.data.partition
    return own_object(partition, "data.partition=FILE.py:NAME") if is_own(partition) and partition else partition


def model_of(config: Config, federation: Federation) -> nn.Module | str:
    """A name of ours, or the user's module."""
    return own_model(config, federation) if is_own(config.model.name) else config.model.name


def own_model(config: Config, federation: Federation) -> nn.Module:
    """The user's module: an instance, or what a class or a function makes, given the federation if it asks for it."""
    name, usage = config.model.name, "model=FILE.py:NAME"
    found = own_object(name, usage)
    if not isinstance(found, nn.Module) and callable(found):
        with torch_stream(config.run.seed, "model"), torch.device("cpu"):  # as models.build does
            found = made_by(name, found, {"federation": federation}, config.model.model_extra or {})
    if not isinstance(found, nn.Module):
        raise InputError(
            f"'{name}' is {short_repr(found)}; {usage} needs a torch.nn.Module, or a class or function that makes one."
        )
    return found


def output_of(config: Config) -> Output | None:
    name = config.model.output
    if name is not None and not is_own(name):
        raise InputError(
            f"model.output is '{name}'; give a function of what the model returns: model.output=FILE.py:NAME."
        )
    return None if name is None else own_object(name, "model.output=FILE.py:NAME")


def loss_of(config: Config) -> Loss | None:
    name = config.local.loss
    if name is None:
        return None
    if not is_own(name):
        if name not in LOSSES:
            raise unknown("loss", name, LOSSES)
        return LOSSES[name]
    found = own_object(name, "loss=FILE.py:NAME")
    return found() if isinstance(found, type) else found


def evaluation_settings_of(config: Config) -> EvaluationSettings:
    """Metrics of the user's own have the names behind the last colon."""
    given = config.evaluate.metrics
    names = [given] if isinstance(given, str) else given or []
    found = {
        name.rpartition(":")[2]: own_object(name, "metrics=FILE.py:NAME") if is_own(name) else name for name in names
    }
    if len(found) < len(names):
        raise InputError(f"evaluate.metrics names a metric twice in {', '.join(names)}; name each once.")
    own: dict[str, Any] = {field.name: getattr(config.evaluate, field.name) for field in fields(EvaluationSettings)}
    own["metrics"] = found or None
    return EvaluationSettings(**own)


def engine_of(config: Config) -> EngineSettings:
    try:
        return settings_from(config.engine, EngineSettings)
    except InputError as error:  # in a configuration the setting has a section
        raise InputError(f"{'' if str(error).startswith('engine') else 'engine.'}{error}") from None


def cohort_of(config: Config) -> Cohort:
    cohort = config.run.cohort
    if not isinstance(cohort, str):
        return cohort
    if not is_own(cohort):
        return parse(cohort)
    found = own_object(cohort, "cohort=FILE.py:NAME")
    return found() if isinstance(found, type) else found


def local_of(config: Config) -> LocalTraining:
    functions: dict[str, Any] = {}
    for name in ("lr", "steps"):
        given = getattr(config.local, name)
        if not isinstance(given, str):
            continue
        if not is_own(given):
            raise InputError(
                f"local.{name} is '{given}'; give a number, a list with one for each round, or FILE.py:FUNCTION."
            )
        functions[name] = own_object(given, f"local.{name}=FILE.py:FUNCTION")
    return settings_from(config.local.model_copy(update=functions), LocalTraining)


def settings_from(section: Section, cls: type[Settings]) -> Settings:
    """The dataclass whose fields the section has inherited; its values are checked now."""
    return cls(**{field.name: getattr(section, field.name) for field in fields(cls)})
