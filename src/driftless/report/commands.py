"""The commands that run a comparison again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from driftless.compare import is_name, value_text
from driftless.config.resolution import combine, flat
from driftless.config.sections import Config, is_experiment
from driftless.data import DATASETS
from driftless.report.curves import Curve, Run
from driftless.report.overview import are_consecutive
from driftless.report.settings import ALGORITHM, LABEL, Settings, differences
from driftless.runs.directory import CONFIG

LONGEST = 1000
"""Characters of a command that is written in full."""


def commands(curves: Sequence[Curve]) -> list[str]:
    """One `compare` where the curves differ only in the algorithm, otherwise the commands of each curve."""
    differ = differences([curve.settings for curve in curves])
    seeds = {tuple((run.seed, run.data_seed) for run in curve.runs) for curve in curves}
    if differ == [f"{ALGORITHM}name"] and len(seeds) == 1 and (text := compare_command(curves)):
        return [text]
    return [command for curve in curves for command in curve_commands(curve)]


def curve_commands(curve: Curve) -> list[str]:
    """A `compare` over its seeds, or a `run` for each where they are not consecutive."""
    if len(curve.seeds) > 1 and (text := compare_command([curve])):
        return [text]
    return [run_command(run) for run in curve.runs]


def compare_command(curves: Sequence[Curve]) -> str:
    """For curves with the same settings and seeds; empty where no readable command has these seeds."""
    curve, first = curves[0], curves[0].runs[0]
    if not are_consecutive(curve.seeds) or len({run.data_seed for run in curve.runs}) > 1:
        return ""
    named = [(each, each.settings[LABEL]) for each in curves]
    if not all(label is None or is_name(label) for _, label in named):
        return ""
    own = [text for text in overrides(curve.settings) if not text.startswith(f"{ALGORITHM}name=")]
    own += [f"data.seed={first.data_seed}"] if first.data_seed is not None else []
    own += [f"seed={first.seed}"] if first.seed else []
    names = [each.algorithm if label is None else f"{label}={each.algorithm}" for each, label in named]
    text = shlex.join(["driftless", "compare", *names, *own, f"seeds={len(curve.seeds)}"])
    return text if len(text) <= LONGEST else ""


def run_command(run: Run) -> str:
    """With its settings, or, where that is too long to read, with its stored configuration."""
    label = run.settings[LABEL]
    text = shlex.join(["driftless", "run", *overrides(run.settings), *([] if label is None else [f"{LABEL}={label}"])])
    return text if len(text) <= LONGEST else shlex.join(["driftless", "run", str(run.stored.path / CONFIG)])


def overrides(settings: Settings) -> list[str]:
    """`key=value` for everything that is not the default."""
    default = defaults_with(settings)
    ours = {key: value for key, value in settings.items() if is_experiment(key) and value != default.get(key)}
    return [f"{key}={value_text(value)}" for key, value in ours.items()]


def defaults_with(settings: Settings) -> Settings:
    """Also those that depend on the data set: its partition, and that one's options if it is the partition.

    Options of the algorithm are in the settings only if they are not its defaults.
    """
    fixed, data = flat(Config()), settings["data.name"]
    if data not in DATASETS:
        return fixed
    default = flat(combine([("", {"data.name": data})]).config)
    same_partition = default["data.partition"] == settings["data.partition"]
    return {k: v for k, v in default.items() if k in fixed or (same_partition and k.startswith("data."))}
