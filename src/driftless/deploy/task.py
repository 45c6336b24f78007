"""What is trained, as both sides make it: from the settings of the app and the objects of its code."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from driftless.algorithm import Algorithm
from driftless.config.arguments import Described, describe_algorithm, describe_evaluation
from driftless.config.build import DTYPES, algorithm_of, cohort_of, local_of, loss_of, model_of, output_of
from driftless.config.resolution import Resolved, combine, full_keys
from driftless.config.user_code import PYTHON, using
from driftless.data.cohorts import as_schedule
from driftless.data.federation import Federation
from driftless.engine.device import as_device, state_dtype
from driftless.engine.evaluation_settings import EvaluationSettings
from driftless.engine.flat import FlatModel
from driftless.engine.losses import Loss, default_loss
from driftless.engine.metrics import Given
from driftless.engine.minibatches import Workload
from driftless.errors import InputError, check_choice
from driftless.privacy import DifferentialPrivacy
from driftless.simulate import as_module, planned

NODES = f"{PYTHON}nodes"
"""The label of the data, which are on the nodes."""
SOURCE = "settings of the app"
FIXED = {"data.name": NODES, "engine.kind": "single", "engine.workers": 1}
REFUSED = {
    "data.": "the nodes have the data; give the number of nodes by deploy.clients",
    "faults.": "a federation has faults of its own; simulate them with `driftless run`",
    "server.inference=clients": "the server does not see the models of clients; choose cloud or aggregate",
}


@dataclass(frozen=True)
class Task:
    """The objects of an app; what is not given here is in its settings (`algorithm.name`, `model.name`, ...)."""

    model: nn.Module | str | Callable[..., nn.Module] | None = None
    algorithm: Algorithm | None = None
    """With differential privacy its noise is secure, whatever it says."""
    loss: Loss | None = None
    model_output: Callable[..., Tensor] | None = None
    cohort: Any = None
    metrics: Given = None

    @contextmanager
    def resolved(self, settings: Mapping[str, Any], federation: Federation | None) -> Generator[Resolved]:
        """The configuration of the run; within it, its labels stand for these objects."""
        made = Described({NODES: federation})
        with using(made.objects):
            settings = full_keys(settings, {**settings, **FIXED})
        refuse_settings(settings)
        made.values = {"run.checkpoint_every": 1, **settings, **FIXED}
        if any(key.startswith("privacy.") for key in settings):
            made.values.setdefault("privacy.noise_source", "secure")
        if self.algorithm is not None:
            made.values = {key: value for key, value in made.values.items() if not key.startswith("algorithm.")}
            describe_algorithm(made, with_secure_noise(self.algorithm), {"local": SOURCE}, "")
        given = {
            "model.name": self.model, "local.loss": self.loss, "model.output": self.model_output,
            "run.cohort": self.cohort,
        }  # fmt: skip
        for key, value in given.items():
            if value is not None:
                made.set(key, value)
        if self.metrics is not None:
            made.values["evaluate.metrics"] = names_of_metrics(made, self.metrics)
        with using(made.objects):
            yield combine([(SOURCE, made.values)])


def names_of_metrics(made: Described, metrics: Given) -> Any:
    other = Described(made.objects)
    describe_evaluation(other, EvaluationSettings(metrics))
    return other.values["evaluate.metrics"]


def with_secure_noise(algorithm: Algorithm) -> Algorithm:
    return replace(algorithm, noise_source="secure") if isinstance(algorithm, DifferentialPrivacy) else algorithm


def refuse_settings(settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        for prefix, remedy in REFUSED.items():
            if f"{key}={value}".startswith(prefix):
                raise InputError(f"{key} cannot be set in a federation: {remedy}.")


def workload_of(resolved: Resolved, federation: Federation) -> Workload:
    """What a node trains."""
    config = resolved.config
    check_choice("engine.precision", config.engine.precision, DTYPES)
    precision = DTYPES[config.engine.precision]
    module = as_module(model_of(config, federation), federation, config.run.seed)
    model = FlatModel(module, precision, output_of(config), as_device(config.engine.device))
    federation = federation.to(state_dtype(precision), train_inputs=False)
    loss = loss_of(config) or default_loss(federation.targets)
    training = local_of(config).for_rounds(config.run.rounds)
    algorithm = planned(
        algorithm_of(config), model, as_schedule(cohort_of(config)), training, rounds=config.run.rounds,
        clients=federation.clients, weighting=config.server.weighting, inference=config.server.inference,
        aggregation=config.server.aggregation, seed=config.run.seed,
    )  # fmt: skip
    return Workload(algorithm, model, loss, training, federation, config.run.seed)
