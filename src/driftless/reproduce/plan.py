"""What a scale would run: every setting beside the paper's, and the time that it takes here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from driftless.config.build import cohort_of, federation_of
from driftless.config.sections import Config
from driftless.data import DATASETS
from driftless.data.cohorts import as_schedule
from driftless.data.federation import Federation
from driftless.data.inputs import select
from driftless.errors import InputError
from driftless.models import build
from driftless.reproduce.experiment import Cell, Experiment, Scale
from driftless.reproduce.pages import duration
from driftless.reproduce.runner import Planned, first_look, resolved, total_rounds
from driftless.reproduce.strength import strength

MOST_VALUES = 4
"""Of a setting, shown in a table; a search or a sweep may have more."""
TIMED = 0.3
"""Seconds for which the minibatches of a model are timed."""
OVERHEAD = 1.3
"""Of a run over its local steps: averaging, evaluation, reading of batches."""
UNKNOWN = "unknown: the data are not here"
IGNORED = ("run.seed", "run.output", "run.label", "run.checkpoint_every", "data.seed")


def settings_of(cells: Sequence[Cell]) -> dict[str, list[Any]]:
    """The values that each setting takes over all cells, defaults included."""
    found: dict[str, dict[str, Any]] = {}
    for cell in cells:
        for point in cell.candidates:
            for key, value in flat(resolved(point, 0).config.model_dump()).items():
                if key not in IGNORED and not key.startswith("engine."):
                    found.setdefault(key, {})[repr(value)] = value
    return {key: list(values.values()) for key, values in sorted(found.items())}


def stated(cells: Sequence[Cell]) -> set[str]:
    """The settings that cells name, in contrast to defaults."""
    return {key for cell in cells for key in (*cell.settings, *cell.grid)}


def flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, keys in tree.items() for key, value in keys.items()}


def as_json(experiment: Experiment, scale: Scale, output: Path) -> dict[str, Any]:
    setup = experiment.setup(scale)
    ours, papers = (settings_of(one.cells) if one else {} for one in (setup, experiment.paper))
    named = stated([*(setup.cells if setup else ()), *experiment.paper.cells])
    runs = first_look(setup, output) if setup else []
    found: dict[str, Any] = {
        "experiment": experiment.name,
        "scale": scale,
        "claims": [
            {"name": claim.name, "text": claim.text, "rule": claim.rule, "decided_by": claim.decided_by,
             "strength": strength(experiment, claim, scale)}
            for claim in experiment.claims
        ],
        "settings": {
            key: {"paper": papers.get(key), "here": ours.get(key), "same": papers.get(key) == ours.get(key),
                  "stated": key in named}
            for key in sorted({*ours, *papers})
        },
        "options": {"paper": dict(experiment.paper.options), "here": dict(setup.options) if setup else None},
    }  # fmt: skip
    if setup is None:
        return {**found, "not_tested": experiment.untestable}
    return {
        **found,
        "seeds": [setup.seeds, setup.last_look],
        "runs": len({one.folder for one in runs}),
        "rounds": total_rounds(runs),
        "expected_seconds": expected_seconds(runs),
        "data": setup.data,
        "reduced": setup.reduced,
    }  # fmt: skip


def expected_seconds(runs: Sequence[Planned]) -> float | None:
    """Of one core, from the time of a minibatch of each model here; None if data are missing, so that it is unknown."""
    of_data: dict[str, Federation] = {}
    of_steps: dict[str, float] = {}
    total = 0.0
    if not all(is_here(one.resolved.config.data.name) for one in runs):  # a plan downloads nothing
        return None
    try:
        for config in {one.folder: one.resolved.config for one in runs}.values():
            data = repr(config.data)
            if data not in of_data:
                of_data[data] = federation_of(config)
            federation = of_data[data]
            steps = f"{data} {config.model!r} {config.local.batch_size}"
            if steps not in of_steps:
                of_steps[steps] = minibatch_seconds(config, federation)
            total += OVERHEAD * config.run.rounds * steps_of_a_round(config, federation) * of_steps[steps]
    except InputError:
        return None
    return total


def is_here(name: str) -> bool:
    source = DATASETS.get(name)
    return source is None or source.is_here is None or source.is_here()


def steps_of_a_round(config: Config, federation: Federation) -> float:
    """Minibatches of all clients of a round."""
    schedule = as_schedule(cohort_of(config))
    clients = np.mean([len(schedule.clients(t, federation.clients, 0)) for t in range(1, config.run.rounds + 1, 10)])
    local = config.local
    if isinstance(local.steps, int):
        return float(clients * local.steps)
    size = local.batch_size or int(federation.sizes.max())
    return float(clients * (local.epochs or 1) * np.mean(np.ceil(federation.sizes / size)))


def minibatch_seconds(config: Config, federation: Federation) -> float:
    """Forward and backward of one minibatch, as plain PyTorch does it in one thread."""
    module = build(config.model.name, federation.input_shape, federation.classes, 0, federation.target_shape)
    rows = torch.arange(min(config.local.batch_size or int(np.mean(federation.sizes)), len(federation.targets)))
    inputs = select(federation.inputs, rows)
    times, threads = [], torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        end = time.perf_counter() + TIMED
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            module(inputs).float().sum().backward()
            times.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    return float(np.median(times))


def text_of(values: Sequence[Any] | None) -> str:
    if values is None:
        return "-"
    shown = ", ".join(str(value) for value in values[:MOST_VALUES])
    return shown + (f", ... ({len(values)})" if len(values) > MOST_VALUES else "")


def settings_table(found: Mapping[str, Any]) -> Table:
    """The settings beside the paper's; those that differ are marked. Defaults that no cell states are in the JSON."""
    table = Table("", "setting", "paper", found["scale"], box=None, padding=(0, 1))
    defaults = flat(Config().model_dump())
    for key, value in found["settings"].items():
        if value["same"] and not value["stated"] and value["here"] == [defaults.get(key)]:
            continue
        mark = "" if value["same"] else "[yellow]≠[/]"
        table.add_row(mark, key, text_of(value["paper"]), text_of(value["here"]))
    sides = [found["options"][side] or {} for side in ("paper", "here")]
    for key in sorted(str(name) for name in {*sides[0], *sides[1]}):
        paper, here = (side.get(key) for side in sides)
        table.add_row("" if paper == here else "[yellow]≠[/]", key, str(paper), str(here))
    return table


def summary(found: Mapping[str, Any]) -> str:
    if "not_tested" in found:
        return f"not tested: {found['not_tested']}"
    first, last = found["seeds"]
    seeds = f"{first}" if first == last else f"{first} to {last}"
    if not found["runs"]:
        lines = [f"{found['scale']}: computed, without runs and data"]
    else:
        lines = [f"{found['scale']}: {found['runs']} runs with {seeds} seeds, {found['rounds']:,} rounds with {first}"]
        lines.append(f"data: {', '.join(found['data'])}")
        seconds = found["expected_seconds"]
        here = f"about {duration(seconds)} of one core, by the time of a minibatch here" if seconds else UNKNOWN
        lines.append(f"expected: {here}")
    if found["reduced"]:
        lines.append(f"reduced: {found['reduced']}")
    return "\n".join(lines)
