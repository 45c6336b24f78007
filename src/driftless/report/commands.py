"""The commands that run a comparison again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from driftless.config.resolution import flat
from driftless.config.sections import Config
from driftless.report.curves import Curve, Run
from driftless.report.overview import are_consecutive
from driftless.report.settings import ALGORITHM, Settings, differences, is_experiment
from driftless.runs.directory import CONFIG

LONGEST = 1000
"""Characters of a command that is written in full."""


def commands(curves: Sequence[Curve]) -> list[str]:
    """One `compare` where the curves differ only in the algorithm, otherwise the commands of each curve."""
    differ = differences([curve.settings for curve in curves])
    seeds = {tuple((run.seed, run.data_seed) for run in curve.runs) for curve in curves}
    if differ == [f"{ALGORITHM}name"] and len(seeds) == 1 and has_one_command(curves[0]):
        text = compare_command([curve.algorithm for curve in curves], curves[0])
        if len(text) <= LONGEST:
            return [text]
    return [command for curve in curves for command in curve_commands(curve)]


def curve_commands(curve: Curve) -> list[str]:
    """A `compare` over its seeds, or a `run` for each where they are not consecutive."""
    if len(curve.seeds) > 1 and has_one_command(curve):
        text = compare_command([curve.algorithm], curve)
        if len(text) <= LONGEST:
            return [text]
    return [run_command(run) for run in curve.runs]


def has_one_command(curve: Curve) -> bool:
    return are_consecutive(curve.seeds) and len({run.data_seed for run in curve.runs}) == 1


def compare_command(algorithms: Sequence[str], curve: Curve) -> str:
    first = curve.runs[0]
    own = [text for text in overrides(curve.settings) if not text.startswith(f"{ALGORITHM}name=")]
    own += [f"data.seed={first.data_seed}"] if first.data_seed is not None else []
    own += [f"seed={first.seed}"] if first.seed else []
    return shlex.join(["driftless", "compare", *algorithms, *own, f"seeds={len(curve.seeds)}"])


def run_command(run: Run) -> str:
    """With its settings, or, where that is too long to read, with its stored configuration."""
    text = shlex.join(["driftless", "run", *overrides(run.settings)])
    return text if len(text) <= LONGEST else shlex.join(["driftless", "run", str(run.stored.path / CONFIG)])


def overrides(settings: Settings) -> list[str]:
    """`key=value` for everything that is not the default."""
    default = flat(Config())
    ours = {key: value for key, value in settings.items() if is_experiment(key) and value != default.get(key)}
    return [f"{key}={value_text(value)}" for key, value in ours.items()]


def value_text(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
