"""What takes effect where a setting is left open, in words for a printed configuration."""

from __future__ import annotations

import json
from typing import Any

from driftless.algorithm import Algorithm
from driftless.config.sections import Config
from driftless.config.user_code import algorithm_class, is_only_text
from driftless.data.datasets import DATASETS
from driftless.data.load import clients_used, partition_used
from driftless.engine.local import LocalTraining

NOT_USED = ": not used"
MEANINGS = {
    ("engine.kind", "auto"): "in blocks or one by one, decided by the model",
    ("engine.workers", "auto"): "one process per core if a round has enough work",
    ("engine.block_size", None): ": auto, decided by the model and engine.memory",
    ("run.evaluate_every", None): ": auto, every round, of a large model less often",
    ("run.output", None): ": a new folder in runs",
    ("run.label", None): ": the algorithm's name",
    ("server.aggregation_attackers", None): ": as many as the cohort permits",
    ("server.aggregation_keep", None): ": the cohort without attackers and 2 more",
    ("server.aggregation_bound", None): ": the median of the norms of a round's uploads",
    ("local.batch_size", "none"): "all examples of a client",
    ("local.loss", None): ": auto, cross-entropy for labels, half the squared error for numbers",
    ("faults.attack_scale", None): ": auto, 10 for scale, 1 for sign-flip",
    ("evaluate.monitor", None): ": auto, the test accuracy, for numbers the test loss",
    ("evaluate.mode", None): ": auto, as is good for evaluate.monitor",
    ("evaluate.max_examples", None): ": all examples",
    ("privacy.noise_multiplier", None): ": no differential privacy, unless privacy.target_epsilon is set",
    ("privacy.delta", None): ": clients^-1.1",
    ("privacy.clip_quantile", None): ": privacy.clip is fixed",
    ("privacy.clip_noise", None): ": a twentieth of the cohort, at least privacy.noise_multiplier",
}
"""Of values that leave a decision to driftless."""


def left_open(key: str, config: Config) -> str:
    """What is done without this setting: " = 5", the value that takes its place, or ": not used"."""
    if (key, None) in MEANINGS:
        return MEANINGS[key, None]
    if key in ("data.clients", "data.partition"):
        return data_left_open(key, config)
    if key == "server.weighting" and config.privacy.is_on:
        return equals("uniform")
    if key in ("server.weighting", "server.inference"):
        return algorithm_left_open(key, config.algorithm.name)
    if key == "data.seed":
        return equals(config.run.seed)
    if key == "local.epochs" and config.local.steps is None:
        return equals(LocalTraining().epochs)
    return NOT_USED


def data_left_open(key: str, config: Config) -> str:
    data = config.data
    if data.name not in DATASETS:
        return ": as the data are"
    if key == "data.partition":
        used = partition_used(data.name, None)
        return ": not used, the data come as clients" if used is None else equals(used)
    clients = clients_used(data.name, data.partition)
    return ": one for each user of the data" if clients is None else equals(clients)


def algorithm_left_open(key: str, name: str) -> str:
    cls = None if is_only_text(name) else algorithm_class(name)
    if cls is None or (key == "server.inference" and cls.inference is not Algorithm.inference):
        return ": the algorithm's own"
    return equals(cls.weighting if key == "server.weighting" else "cloud")


def equals(value: Any) -> str:
    return f" = {json.dumps(value)}"


def meaning(key: str, value: Any) -> str:
    """Of a value such as "auto"; empty for those that say it themselves."""
    return MEANINGS.get((key, value), "") if isinstance(value, str) else ""
