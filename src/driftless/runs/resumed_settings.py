"""The settings of a run that is resumed: as they were, except for what does not decide its numbers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from driftless.config.resolution import Config
from driftless.errors import InputError, check_whole
from driftless.runs.directory import CHECKPOINT, CONFIG
from driftless.runs.environment import ENGINE


def refuse_other_engine(directory: Path, recorded: dict[str, Any]) -> None:
    if recorded.get("engine", 1) != ENGINE:
        raise InputError(
            f"the run in '{directory}' was started by a version of driftless with another engine, so it cannot be "
            "continued to the same bits; start it anew with: "
            f"driftless run {shlex.quote(str(directory / CONFIG))} output=DIR"
        )


def without_weights(directory: Path, config: Config) -> Config:
    """A run with a checkpoint needs no file of weights: its x is newer. Only the mean over all clients contains x^0."""
    if config.server.inference == "clients" or not any((directory / CHECKPOINT).glob("manifest-*.json")):
        return config
    return without_file_of_weights(config)


def without_file_of_weights(config: Config) -> Config:
    return config.model_copy(update={"model": config.model.model_copy(update={"weights": None})})


def with_workers(config: Config, workers: int | None) -> Config:
    if workers is None:
        return config
    check_whole("workers", workers, 1)
    if workers > 1 and config.engine.threads != 1:
        raise InputError(
            f"the run was started with {config.engine.threads} threads, and workers have one each: its numbers would "
            "not be the same bits. Resume without --workers, or start runs that are to change with engine.threads=1."
        )
    return with_engine(config, workers=workers)


def with_device(config: Config, device: str | None) -> tuple[Config, tuple[str, ...]]:
    """And what a user should know about the change."""
    before = config.engine.device
    if device in (None, before):
        return config, ()
    return with_engine(config, device=device), (
        f"device {before} -> {device}: the continued run may differ in the last bits",
    )


def with_engine(config: Config, **values: Any) -> Config:
    return config.model_copy(update={"engine": config.engine.model_copy(update=values)})
