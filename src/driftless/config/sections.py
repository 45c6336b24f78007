"""The sections of a configuration: their keys, types and defaults.

`local`, `evaluate`, `server`, `faults` and `engine` inherit the fields of the dataclasses that they are turned into
(build.py), so that a field added there is a setting at once. Only types are checked here; the dataclasses check the
values.
"""

from __future__ import annotations

from pydantic import BaseModel

from driftless.algorithms import AdaptiveClipping
from driftless.engine.aggregation import Aggregation
from driftless.engine.evaluation_settings import EvaluationSettings
from driftless.engine.faults import Faults
from driftless.engine.local import LocalTraining
from driftless.engine.server_lr import ServerSchedule
from driftless.engine.settings import EngineSettings
from driftless.privacy import DifferentialPrivacy

MOST_RUNS = 100_000
"""Of a comparison or a search."""


class Section(BaseModel, extra="forbid", frozen=True, strict=True):
    """Every value is checked when the section is made; sections never change."""


class Data(Section, extra="allow", frozen=True):
    """Data set and partition; the options of both are keys of this section."""

    name: str = "digits"
    clients: int | None = None
    partition: str | None = None
    validation: int | float = 0
    client_test: int | float = 0
    seed: int | None = None


class Model(Section, extra="allow", frozen=True):
    """The model; the options of a user's own factory are keys of this section."""

    name: str = "mlp"
    weights: str | None = None
    output: str | None = None
    """A function of what the model returns that gives the tensor which the loss takes: FILE.py:NAME."""


class AlgorithmSection(Section, extra="allow", frozen=True):
    """The algorithm; its hyper-parameters are keys of this section."""

    name: str = "fedavg"


class Local(Section, LocalTraining, frozen=True):
    """The fields of LocalTraining, and the loss."""

    lr: float | list[float] | str = LocalTraining.lr  # pyright: ignore
    steps: int | list[int] | str | None = LocalTraining.steps  # pyright: ignore
    loss: str | None = None


class Evaluate(Section, EvaluationSettings, frozen=True):
    """The fields of EvaluationSettings; metrics by their names, in a list or one text with commas."""

    metrics: str | list[str] | None = None


class Server(Section, ServerSchedule, frozen=True):
    """The fields of ServerSchedule, `clipping_...` for those of AdaptiveClipping, `aggregation_...` of Aggregation."""

    weighting: str | None = None
    inference: str | None = None
    clipping: str = "none"
    clipping_quantile: float = AdaptiveClipping.quantile
    clipping_lr: float = AdaptiveClipping.lr
    clipping_initial: float = AdaptiveClipping.initial
    aggregation: str = Aggregation.rule
    aggregation_trim: int | float = Aggregation.trim
    aggregation_attackers: int | float | None = Aggregation.attackers
    aggregation_keep: int | None = Aggregation.keep
    aggregation_bound: float | None = Aggregation.bound


class FaultsSection(Section, Faults, frozen=True):
    """The fields of Faults."""

    dropout: float | list[float] = Faults.dropout  # pyright: ignore
    trace: str | None = None


class Privacy(Section, frozen=True):
    """The fields of DifferentialPrivacy, which is around the algorithm if one of the first two is given."""

    noise_multiplier: float | None = None
    target_epsilon: float | None = None
    delta: float | None = None
    clip: float = DifferentialPrivacy.clip
    clip_quantile: float | None = None
    clip_lr: float = DifferentialPrivacy.clip_lr
    clip_noise: float | None = None
    accountant: str = DifferentialPrivacy.accountant
    noise_source: str = DifferentialPrivacy.noise_source

    @property
    def is_on(self) -> bool:
        return self.noise_multiplier is not None or self.target_epsilon is not None


class Engine(Section, EngineSettings, frozen=True):
    """The fields of EngineSettings, the device and the precision."""

    device: str = "auto"
    precision: str = "float32"


class Run(Section, frozen=True):
    rounds: int = 100
    cohort: int | float | str | list[list[int]] = 10
    seed: int = 0
    evaluate_every: int | None = None
    checkpoint_every: int = 10
    output: str | None = None
    label: str | None = None
    """The curve's name in tables and reports; none: the algorithm's."""
    target: float | None = None
    stop_at_target: bool = False
    patience: int | None = None
    straggler_alpha: float = 1.0
    straggler_lambda: float = 1.0


class Config(Section, frozen=True):
    data: Data = Data()
    model: Model = Model()
    algorithm: AlgorithmSection = AlgorithmSection()
    local: Local = Local()
    evaluate: Evaluate = Evaluate()
    server: Server = Server()
    faults: FaultsSection = FaultsSection()
    privacy: Privacy = Privacy()
    engine: Engine = Engine()
    run: Run = Run()


BOOKKEEPING = ("run.output", "run.checkpoint_every", "run.label")
"""Settings that change no number of a run."""


def is_experiment(key: str) -> bool:
    """Whether a setting can change a result beyond rounding: the engine's cannot, except types of numbers."""
    return key in ("engine.precision", "engine.store_dtype") or (
        not key.startswith("engine.") and key not in BOOKKEEPING
    )
