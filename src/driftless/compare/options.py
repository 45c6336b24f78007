"""The `[compare]` table of a configuration file."""

from __future__ import annotations

from typing import Any

from pydantic import Field, StrictInt

from driftless.config.sections import MOST_RUNS, Section


class Compare(Section, strict=False, frozen=True):
    """On the command line its keys stand beside the settings: `seeds=5`, `sweep.data.alpha=[0.1,1]`."""

    algorithms: tuple[str, ...] = ()
    """Names of algorithms, `FILE.py:CLASS`, and variants: "weak=fedprox,mu=0.01"."""
    seeds: StrictInt = Field(default=3, ge=1, le=MOST_RUNS)
    target: float | None = None
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """By name, settings that differ from the rest of the file; with `algorithm`, they make a variant of it."""
    sweep: dict[str, Any] = Field(default_factory=dict)
    """For each key the values to sweep over."""
