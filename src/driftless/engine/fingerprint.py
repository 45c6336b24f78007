"""What decides the bits of a run, as checksums and versions: data, model, x^0, code that is in no file, arithmetic."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from driftless.data.fingerprint import fingerprint
from driftless.engine.simulation import Simulation

MODULE_PREFIX = "driftless_user_"
"""Of the names of modules made from users' files, which have checksums of their own."""
MEANING = {
    "data": "the data", "model": "the names and shapes of the model's parameters",
    "x0": "the parameters at which the model begins", "algorithm": "the algorithm, or its code",
    "loss": "the code of the loss", "cohort": "the cohorts, or their code", "lr": "the code of the learning rate",
    "steps": "the code of the number of local steps", "metrics": "the code of a metric",
    "faults": "the faults, or their trace",
}  # fmt: skip
"""In words, for errors."""
SHOWN = 12
"""Digits of a checksum that are compared between ranks, and shown."""


def fingerprints(simulation: Simulation) -> dict[str, str]:
    model = simulation.model
    shapes = [(name, list(value.shape)) for name, value in model.parameters(model.initial).items()]
    return {
        "data": fingerprint(simulation.federation, model.initial.dtype),
        "model": sha256(str(shapes).encode()),
        "x0": of_tensors({"": model.initial, **model.constants()}),
        "algorithm": of_object(simulation.algorithm),
        "loss": of_object(simulation.loss),
        "cohort": of_object(simulation.cohort),
        "faults": of_object(dataclasses.replace(simulation.faults, trace=simulation.trace.sha256)),
        "lr": of_object(simulation.training.lr),
        "steps": of_object(simulation.training.steps),
        "metrics": sha256(str([of_object(metric.value) for metric in simulation.evaluation.metrics]).encode()),
    }


def arithmetic() -> dict[str, str]:
    """What the last bits of a result depend on: the versions, and the instructions that torch uses."""
    return {
        "driftless": metadata.version("driftless"),
        "torch": metadata.version("torch"),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def facts(simulation: Simulation) -> dict[str, str]:
    """What all ranks of a run must have the same, in words."""
    versions, decision = arithmetic(), simulation.decision
    return {
        "the version of driftless": versions["driftless"],
        "the version of torch": versions["torch"],
        "the CPU capability that torch uses (ATEN_CPU_CAPABILITY sets it)": versions["cpu_capability"],
        "the number of rounds": str(simulation.rounds),
        "the seed": str(simulation.seed),
        "the weighting": simulation.weighting,
        "the aggregation": str(simulation.aggregation),
        "the engine": f"{decision.kind}, block_size={decision.block_size}, threads={decision.threads}",
        "the precision": f"{simulation.model.precision}, of stored client state {simulation.engine.store_dtype}",
        "the local training": of_object(simulation.training)[:SHOWN],
        **{MEANING[name]: value[:SHOWN] for name, value in fingerprints(simulation).items()},
    }


def of_tensors(tensors: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name, value in tensors.items():
        total.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        total.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()


def of_object(value: Any) -> str:
    """Of a dataclass its fields, and of a user's class or function its code, as far as Python knows it.

    Code in FILE.py:NAME is left out: its file has a checksum of its own, and `--trust` accepts another one.
    """
    if isinstance(value, int | float | str | list | tuple | None):
        return sha256(repr(value).encode())
    code = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
    values = {}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        values = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    parts = [getattr(code, "__qualname__", ""), *(f"{name}={of_object(each)}" for name, each in values.items())]
    module = str(getattr(code, "__module__", ""))
    if not module.startswith((MODULE_PREFIX, "driftless.", "torch.", "builtins")):
        parts.append(source_of(code))
    return sha256("\n".join(parts).encode())


def source_of(code: Any) -> str:
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):  # typed in, or made by other code
        return ""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
