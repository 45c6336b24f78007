"""Reading run directories: what report, compare and tune work on.

A run directory holds `config.toml` (every setting and its source), `environment.json`, `metrics.jsonl` (one line a
round), `events.jsonl`, `checkpoint/`, and, when the run has ended, `result.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from driftless.config.resolution import Config, resolve
from driftless.errors import InputError

CONFIG, ENVIRONMENT, METRICS, EVENTS = "config.toml", "environment.json", "metrics.jsonl", "events.jsonl"
RESULT, CHECKPOINT, LOCK = "result.json", "checkpoint", "lock"


@dataclass(frozen=True)
class StoredRun:
    """A run directory, read lazily."""

    path: Path

    @cached_property
    def config(self) -> Config:
        return resolve(self.path / CONFIG, []).config

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The metrics, a dict a round; a value that a round did not measure is absent."""
        return read_lines(self.path / METRICS)

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """{"round": ..., "what": ..., "clients": [...]}."""
        return read_lines(self.path / EVENTS)

    @cached_property
    def environment(self) -> dict[str, Any]:
        return read_json(self.path / ENVIRONMENT)

    @cached_property
    def result(self) -> dict[str, Any] | None:
        """None while the run has not ended."""
        return read_json(self.path / RESULT) if (self.path / RESULT).exists() else None

    @property
    def algorithm(self) -> str:
        return self.config.algorithm.name

    @property
    def seed(self) -> int:
        return self.config.run.seed


def is_run(path: Path) -> bool:
    return (path / CONFIG).is_file() and (path / METRICS).is_file()


def read_run(path: Path) -> StoredRun:
    if not is_run(path):
        raise InputError(
            f"'{path}' is not a run directory (no {CONFIG} and {METRICS} in it); give one that a run made."
        )
    return StoredRun(path)


def find_runs(paths: Iterable[Path]) -> list[StoredRun]:
    """The runs at or below these paths, in the order of their names."""
    runs: list[StoredRun] = []
    for path in paths:
        found = sorted(file.parent for file in path.rglob(CONFIG) if is_run(file.parent)) if path.is_dir() else []
        if not found:
            raise InputError(
                f"there is no run at or below '{path}'; give run directories, or a folder that holds some."
            )
        runs += [StoredRun(folder) for folder in found if folder not in {run.path for run in runs}]
    return runs


def read_json(file: Path) -> dict[str, Any]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"'{file}' is damaged: {error}. Put it back, or delete it.") from None


def read_lines(file: Path) -> list[dict[str, Any]]:
    """JSON lines; a last line that a killed process left unfinished is ignored."""
    if not file.exists():
        return []
    lines = file.read_bytes().split(b"\n")
    try:
        return [json.loads(line) for line in lines[:-1] if line]
    except ValueError as error:
        raise InputError(f"'{file}' is damaged: {error}. Put it back, or delete the run.") from None
