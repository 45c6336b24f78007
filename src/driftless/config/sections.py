"""The sections of a configuration: their keys, types and defaults."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Every value is checked when the section is made; sections never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Data(Section):
    """Data set and partition; the options of both are keys of this section."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: str = "digits"
    clients: int | None = None
    partition: str | None = None
    validation: int | float = 0
    seed: int | None = None


class Model(Section):
    name: str = "mlp"
    weights: str | None = None


class AlgorithmSection(Section):
    """The algorithm; its hyper-parameters are keys of this section."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: str = "fedavg"


class Local(Section):
    lr: float = 0.1
    epochs: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    last_batch: str = "short"
    weight_decay: float = 0.0
    clip_norm: float | None = None
    lr_decay: float = 1.0
    augment: str = "none"


class Server(Section):
    weighting: str | None = None
    inference: str | None = None
    lr_scaling: str = "none"
    reference_cohort: int | None = None
    warmup_rounds: int = 0
    warmup_from: str = "zero"
    clipping: str = "none"
    clipping_quantile: float = 0.8
    clipping_lr: float = 0.2
    clipping_initial: float = 1.0


class Engine(Section):
    kind: str = "auto"
    block_size: int | None = None
    dtype: str = "float32"
    threads: int = 1
    workers: int | str = "auto"
    memory: float = 1.0
    replay: bool = True


class Run(Section):
    rounds: int = 100
    cohort: int | float | str | list[list[int]] = 10
    seed: int = 0
    evaluate_every: int | None = None
    checkpoint_every: int = 10
    output: str | None = None
    target: float | None = None
    stop_at_target: bool = False
    patience: int | None = None
    straggler_alpha: float = 1.0
    straggler_lambda: float = 1.0


class Config(Section):
    data: Data = Data()
    model: Model = Model()
    algorithm: AlgorithmSection = AlgorithmSection()
    local: Local = Local()
    server: Server = Server()
    engine: Engine = Engine()
    run: Run = Run()
