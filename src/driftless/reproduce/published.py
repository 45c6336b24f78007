"""The numbers that papers print: TOML files beside the experiments."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from driftless.reproduce.experiment import Number


def published(module_file: str, name: str) -> dict[str, Any]:
    """NAME.toml from the folder of a module, which passes its `__file__`."""
    return tomllib.loads(Path(module_file).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def as_number(pair: Sequence[float]) -> Number | None:
    """[mean, deviation] or [mean] of a table; [] where it prints nothing."""
    return Number(*pair) if pair else None
