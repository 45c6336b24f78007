"""environment.json and federation.json: what a reader needs to judge, and to repeat, the numbers of a run."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from driftless.data.federation import Federation
from driftless.data.inputs import Inputs, named_inputs
from driftless.engine.fingerprint import arithmetic

LISTED = ("numpy", "safetensors")
ENGINE = 3
"""Raised when the same settings give other bits than before: runs of another number are not resumed."""
MOST_SIZES = 1000
MOST_CLIENTS, MOST_CLASSES = 100, 100
"""Whose labels are counted, and which labels: federation.json stays small for a million clients."""
PUBLISHED = "papers/*verdicts.json"
"""Written when results are published; no run depends on it."""
QUANTILES = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)


def environment(threads: int) -> dict[str, Any]:
    return {
        "engine": ENGINE,
        "commit": commit(),
        "python": platform.python_version(),
        **arithmetic(),
        **{name: metadata.version(name) for name in LISTED},
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": threads,
        "command": sys.argv,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def differences(recorded: Mapping[str, Any]) -> tuple[str, ...]:
    """Why a run that is continued here may differ from one that was never interrupted."""
    return tuple(
        f"{name} {recorded[name]} -> {here}: the continued run may differ in the last bits"
        for name, here in arithmetic().items()
        if recorded.get(name, here) != here
    )


def commit() -> str | None:
    """The commit of the source tree, with a + when the package has changes; None for an installed package."""
    try:
        found = git("describe", "--always", "--abbrev=12", "--exclude=*")
        changed = git("status", "--porcelain", "--", ".", f":!{PUBLISHED}")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{found}+" if found and changed else found or None


def git(*arguments: str) -> str:
    """Of the package's folder."""
    done = subprocess.run(
        ["git", *arguments], cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=5, check=True
    )
    return done.stdout.strip()


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def federation_summary(federation: Federation) -> dict[str, Any]:
    """How the data were divided. `sizes` are those of the first clients, `labels` counts per class of the first."""
    sizes, classes = federation.sizes, federation.classes
    first = range(min(MOST_CLIENTS, federation.clients))
    return {
        "clients": federation.clients,
        "examples": len(federation.targets),
        "input_shape": shapes(federation.inputs),
        "target_shape": list(federation.target_shape),
        "sizes": sizes[:MOST_SIZES].tolist(),
        "size_quantiles": {f"{q:g}": float(np.quantile(sizes, q)) for q in QUANTILES},
        "labels": None if classes is None else [label_counts(federation.client(i)[1], classes) for i in first],
        "classes": classes,
        "validation_clients": federation.validation.clients if federation.validation else 0,
    }


def shapes(inputs: Inputs) -> list[int] | dict[str, list[int]]:
    """Of an example; of several inputs by their names."""
    if isinstance(inputs, Tensor):
        return list(inputs.shape[1:])
    return {name: list(part.shape[1:]) for name, part in named_inputs(inputs).items()}


def label_counts(labels: Tensor, classes: int) -> list[int]:
    return torch.bincount(labels.flatten(), minlength=classes)[:MOST_CLASSES].tolist()
