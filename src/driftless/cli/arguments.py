"""What several commands take: options, words in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from driftless.errors import InputError
from driftless.runs import trackers
from driftless.runs.callbacks import Callback

Arguments = Annotated[list[str] | None, typer.Argument(metavar="[CONFIG.toml] [KEY=VALUE]...", show_default=False)]
AlgorithmArguments = Annotated[
    list[str] | None, typer.Argument(metavar="[ALGORITHM]... [CONFIG.toml] [KEY=VALUE]...", show_default=False)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no hints.")]
Track = Annotated[
    list[str] | None, typer.Option("--track", help="Follow the run: tensorboard, mlflow, wandb.", show_default=False)
]
Callbacks = Annotated[
    list[str] | None,
    typer.Option("--callback", metavar="FILE.py:CLASS", help="Your own Callback.", show_default=False),
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Runs at the same time. Default: the number of cores.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]


def callbacks_of(track: list[str] | None, callback: list[str] | None) -> list[Callback]:
    """The trackers and the user's own callbacks."""
    return [*map(trackers.tracker, track or []), *map(trackers.callback_from_file, callback or [])]


def reject_names(words: Sequence[str]) -> None:
    if words:
        raise InputError(f"'{words[0]}' is not key=value or a .toml file; did you mean algorithm={words[0]}?")


def split_arguments(
    words: Sequence[str], is_name: Callable[[str], bool] = lambda word: False
) -> tuple[list[str], Path | None, list[str]]:
    """Algorithm names, the configuration file, and the key=value settings, in any order; `is_name`: also with a `=`."""
    overrides = [word for word in words if "=" in word and not is_name(word)]
    files = [word for word in words if word.endswith(".toml") and "=" not in word]
    if len(files) > 1:
        raise InputError(f"two configuration files were given, {files[0]} and {files[1]}; give one.")
    algorithms = [word for word in words if word not in overrides and word not in files]
    return algorithms, Path(files[0]) if files else None, overrides
