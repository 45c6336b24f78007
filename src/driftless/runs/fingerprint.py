"""What a run was started with, as checksums: data, model, x^0, and code that is in no file. Others are refused."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from driftless.config.user_code import MODULE_PREFIX
from driftless.data.fingerprint import fingerprint
from driftless.engine.simulation import Simulation
from driftless.errors import InputError
from driftless.runs.files import read_json

FINGERPRINT = "fingerprint.json"
MEANING = {
    "data": "the data", "model": "the names and shapes of the model's parameters",
    "x0": "the parameters at which the model begins", "algorithm": "the algorithm, or its code",
    "loss": "the code of the loss", "cohort": "the cohorts, or their code", "lr": "the code of the learning rate",
    "metrics": "the code of a metric",
}  # fmt: skip
"""In words, for errors."""

REMEDIES = {
    "x0": " A module that is made anew begins elsewhere: set torch.manual_seed before, or give the class or a function."
}


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
        "lr": of_object(simulation.training.lr),
        "metrics": sha256(str([of_object(metric.value) for metric in simulation.evaluation.metrics]).encode()),
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


def check_same(directory: Path, simulation: Simulation, without: tuple[str, ...] = ()) -> None:
    """Raise if the run in the directory was started with something else; `without`: what need not be the same."""
    if not (directory / FINGERPRINT).exists():  # of an earlier version
        return
    there = read_json(directory / FINGERPRINT)
    here = fingerprints(simulation)
    for name, meaning in MEANING.items():
        if name not in without and there.get(name, here.get(name)) != here.get(name):
            raise InputError(
                f"the run in '{directory}' was started with something else: {meaning} changed since then. Put it back "
                f"as it was, or choose another output.{REMEDIES.get(name, '')}"
            )
