"""What we believe of an experiment after its runs: written then, apart from the rules, which come before."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import driftless

FILE = Path(driftless.__file__).parent / "papers" / "conclusions.toml"


@cache
def conclusions() -> dict[str, dict[str, str]]:
    """Paper -> experiment -> two sentences."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def conclusion(paper: str, experiment: str) -> str:
    """Empty where nothing was run yet."""
    return conclusions().get(paper, {}).get(experiment, "")
