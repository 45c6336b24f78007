"""The arguments of `driftless.run` as a configuration; what no text can describe stays an object with a label."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from driftless.algorithm import Algorithm
from driftless.algorithms import ALGORITHMS, AdaptiveClipping
from driftless.config.build import DTYPES
from driftless.config.options import Values
from driftless.config.resolution import Resolved, combine
from driftless.config.sections import Privacy
from driftless.config.user_code import PYTHON, using
from driftless.data.cohorts import Cohort
from driftless.engine.aggregation import Aggregation, as_aggregation
from driftless.engine.device import check_device
from driftless.engine.evaluation_settings import EvaluationSettings
from driftless.engine.faults import Faults
from driftless.engine.local import LocalTraining
from driftless.engine.losses import Loss
from driftless.engine.metrics import Given, Metric, as_metrics
from driftless.engine.server_lr import ServerSchedule
from driftless.engine.settings import EngineSettings
from driftless.errors import InputError, check_choice, unknown
from driftless.privacy import DifferentialPrivacy
from driftless.simulate import as_algorithm, as_engine, as_evaluation, check_types

SOURCE = "Python"
"""Where the values came from."""
PLAIN = (bool, int, float, str)


class Arguments(TypedDict, total=False):
    """What `run`, `compare` and `tune` take besides algorithm, federation and model: as `simulate` does."""

    rounds: int
    cohort: Cohort
    local: LocalTraining | None
    loss: Loss | None
    weighting: str | None
    seed: int
    engine: str | EngineSettings
    dtype: torch.dtype
    evaluate_every: int | None
    server: ServerSchedule | None
    faults: Faults | None
    inference: str | None
    metrics: Given
    evaluation: EvaluationSettings | None
    model_output: Callable[..., Tensor] | None
    """`output` of `simulate`; that name is the folder's here."""
    device: str
    aggregation: str | Aggregation
    checkpoint_every: int
    target: float | None
    stop_at_target: bool
    patience: int | None


RUN_KEYS = ("rounds", "seed", "evaluate_every", "checkpoint_every", "target", "stop_at_target", "patience")


class Described:
    """A configuration in the making, and the objects in it by their labels."""

    def __init__(self, objects: dict[str, Any]) -> None:
        self.values: Values = {}
        self.objects = objects

    def set(self, key: str, value: Any, label: str = "") -> None:
        """A plain value as it is; anything else becomes a label, its own name if it has one."""
        if value is None or isinstance(value, PLAIN):
            self.values[key] = value
        elif is_plain_list(value):
            self.values[key] = as_lists(value)
        else:
            self.values[key] = self.label(value, label or getattr(value, "__name__", type(value).__name__))

    def label(self, value: Any, name: str) -> str:
        """`python:NAME`, with a number where another object has it."""
        free, number = f"{PYTHON}{name}", 2
        while self.objects.setdefault(free, value) is not value:
            free, number = f"{PYTHON}{name}-{number}", number + 1
        return free

    def resolved(self) -> Resolved:
        with using(self.objects):
            return combine([(SOURCE, self.values)])


def is_plain_list(value: object) -> bool:
    """Numbers, or lists of them: cohorts, learning rates."""
    if not isinstance(value, (list, tuple)):
        return False
    return all(isinstance(each, PLAIN) or is_plain_list(each) for each in value)


def as_lists(value: Any) -> Any:
    return [as_lists(each) for each in value] if isinstance(value, (list, tuple)) else value


def described(
    algorithm: Algorithm | str,
    federation: object,
    model: object,
    arguments: Mapping[str, Any],
    label: str = "",
    objects: dict[str, Any] | None = None,
) -> Described:
    """`label`: the name of the algorithm in a comparison, whose configurations share their `objects`."""
    for name in arguments:
        if name not in Arguments.__annotations__:
            raise unknown("argument", name, Arguments.__annotations__)
    made = isinstance(model, nn.Module | str) or not callable(model)  # a factory makes one for each seed
    given = (arguments.get(name) for name in ("local", "server", "faults"))
    check_types(federation, model if made else nn.Module(), *given)
    check_device(arguments.get("device", "auto"))
    if "rounds" not in arguments or "cohort" not in arguments:
        missing = "rounds" if "rounds" not in arguments else "cohort"
        raise InputError(f"{missing} is missing; give it, for example rounds=100, cohort=10.")
    result = Described({} if objects is None else objects)
    describe_algorithm(result, as_algorithm(algorithm), arguments, label)
    result.set("data.name", federation, getattr(federation, "name", ""))
    result.set("model.name", model, type(model).__name__ if isinstance(model, nn.Module) else "")
    result.set("model.output", arguments.get("model_output"))
    result.set("local.loss", arguments.get("loss"))
    result.set("run.cohort", arguments["cohort"])
    describe_settings(result, "local", arguments.get("local"))
    describe_settings(result, "server", arguments.get("server"))
    describe_settings(result, "faults", arguments.get("faults"))
    describe_evaluation(result, as_evaluation(arguments.get("metrics"), arguments.get("evaluation")))
    describe_settings(result, "engine", as_engine(arguments.get("engine", "auto")))
    for name in ("weighting", "inference"):
        result.set(f"server.{name}", arguments.get(name))
    describe_aggregation(result, as_aggregation(arguments.get("aggregation")))
    dtype = arguments.get("dtype", torch.float32)
    check_choice("dtype", dtype, tuple(DTYPES.values()))
    result.set("engine.device", arguments.get("device", "auto"))
    result.set("engine.precision", next(name for name, each in DTYPES.items() if each == dtype))
    result.values |= {f"run.{name}": arguments[name] for name in RUN_KEYS if name in arguments}
    result.values.setdefault("run.evaluate_every", 1)
    return result


def describe_algorithm(result: Described, algorithm: Algorithm, arguments: Mapping[str, Any], label: str) -> None:
    if type(algorithm) is DifferentialPrivacy:
        result.values |= {f"privacy.{name}": getattr(algorithm, name) for name in Privacy.model_fields}
        algorithm = algorithm.inner
    if type(algorithm) is AdaptiveClipping:
        result.values["server.clipping"] = "adaptive"
        for field in fields(AdaptiveClipping):
            if field.name != "inner":
                result.values[f"server.clipping_{field.name}"] = getattr(algorithm, field.name)
        algorithm = algorithm.inner
    if ALGORITHMS.get(algorithm.name) is type(algorithm):
        result.values["algorithm.name"] = algorithm.name
    else:
        result.set("algorithm.name", algorithm, label or type(algorithm).__name__)
    for field in fields(algorithm):  # pyright: ignore[reportArgumentType]
        value = getattr(algorithm, field.name)
        if value is None or isinstance(value, PLAIN):  # another value stays with the object
            result.values[f"algorithm.{field.name}"] = value
    if arguments.get("local") is None:
        result.values |= {f"local.{key}": value for key, value in algorithm.local_must_be.items()}


def describe_aggregation(result: Described, aggregation: Aggregation) -> None:
    for field in fields(aggregation):
        key = "aggregation" if field.name == "rule" else f"aggregation_{field.name}"
        result.set(f"server.{key}", getattr(aggregation, field.name))


def describe_evaluation(result: Described, settings: EvaluationSettings) -> None:
    describe_settings(result, "evaluate", replace(settings, metrics=None))
    given = settings.metrics
    if isinstance(given, str) or given is None:
        result.values["evaluate.metrics"] = given
        return
    named = given if isinstance(given, Mapping) else {metric.name: each for metric, each in in_pairs(given)}
    names: list[str] = []
    for name, each in named.items():
        if each == name:
            names.append(name)
        else:
            names.append(result.label(each, name))
    result.values["evaluate.metrics"] = names


def in_pairs(given: Any) -> zip[tuple[Metric, Any]]:
    each = list(given) if isinstance(given, Sequence) else [given]
    return zip(as_metrics(each), each, strict=True)


def describe_settings(result: Described, section: str, settings: Any) -> None:
    for field in fields(settings) if settings is not None else ():
        result.set(f"{section}.{field.name}", getattr(settings, field.name))
