"""environment.json: what a reader needs to judge, and to repeat, the numbers of a run."""

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

import torch

LISTED = ("numpy", "safetensors")
ENGINE = 2
"""Raised when the same settings give other bits than before: runs of another number are not resumed."""


def environment(threads: int) -> dict[str, Any]:
    return {
        "driftless": metadata.version("driftless"),
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


def arithmetic() -> dict[str, str]:
    """What the last bits of a result depend on: the version of torch and the instructions that it uses."""
    return {"torch": metadata.version("torch"), "cpu_capability": torch.backends.cpu.get_cpu_capability()}


def differences(recorded: Mapping[str, Any]) -> tuple[str, ...]:
    """Why a run that is continued here may differ from one that was never interrupted."""
    return tuple(
        f"{name} {recorded[name]} -> {here}: the continued run may differ in the last bits"
        for name, here in arithmetic().items()
        if recorded.get(name, here) != here
    )


def commit() -> str | None:
    """The commit of the source tree, with a + when it has changes; None for an installed package."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            cwd=here, capture_output=True, text=True, timeout=5, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
