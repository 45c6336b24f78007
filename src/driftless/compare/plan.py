"""The runs of a comparison: algorithms and variants x cells of a sweep x seeds, checked before the first one starts."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftless.compare.options import Compare
from driftless.compare.sweep import (
    cell_folders,
    cell_name,
    cells_of,
    in_cell,
    number_of_cells,
    parse_sweep,
    refuse_given,
)
from driftless.compare.variants import Variant, check_name, contenders, folder_names
from driftless.config.build import simulation_of
from driftless.config.command import command_options
from driftless.config.describe import Description, common_lines, describe
from driftless.config.options import Values
from driftless.config.resolution import Resolved, combine, full_keys, parse_overrides, with_values
from driftless.config.sections import MOST_RUNS
from driftless.config.user_code import absolute_name
from driftless.errors import InputError, check_whole

BY_COMPARISON = "the comparison"
"""The source of what a comparison decides for its runs."""


@dataclass(frozen=True)
class Comparison:
    """Runs by their folder below the comparison's, such as "fedavg/seed-0", or "alpha=0.1/fedavg/seed-0" in a sweep."""

    runs: dict[str, Resolved]
    target: float | None
    output: Path | None = None
    """Where the user wants it; None for the command's own choice."""
    sweep: tuple[str, ...] = ()
    """The swept keys."""
    about: tuple[str, ...] = ()
    """What the runs share and in what they differ, to be shown."""

    @property
    def rounds(self) -> int:
        return sum(resolved.config.run.rounds for resolved in self.runs.values())


def plan(words: Sequence[str], file: Path | None, overrides: Iterable[str]) -> Comparison:
    """The comparison that the words of the command line and the file describe, with every run checked."""
    options, base, general = command_options(Compare, "compare", file, overrides)
    configurations = {variant.name: config_of(variant, base, general, file) for variant in contenders(words, options)}
    sweep = parse_sweep(options.sweep, configurations)
    refuse_given(sweep, configurations)
    return comparison_of(configurations, options.seeds, sweep, options.target)


def config_of(variant: Variant, base: Values, general: list[str], file: Path | None) -> Resolved:
    """One process each: several runs side by side are faster than one run in several processes."""
    name = variant.name
    own = full_keys(variant.table, {**base, "algorithm.name": variant.algorithm})
    if "algorithm.name" in own:
        raise InputError(f"compare.settings.{name} sets another algorithm; give only its settings there.")
    tuned = {"algorithm.name": variant.algorithm} | own
    where = f"compare.settings.{name} of {file}" if variant.table else BY_COMPARISON
    layers = [(BY_COMPARISON, {"engine.workers": 1}), (str(file), base), (where, tuned)]
    texts = [("command line", general), (f"variant {name}", list(variant.settings))]
    settings = {**base, **tuned}
    for source, given in texts[::-1] if variant.in_file else texts:
        layer = parse_overrides(given, settings)
        if "algorithm.name" in layer:
            raise InputError(
                "algorithm=... is for one run; a comparison takes names: driftless compare fedavg scaffold."
            )
        layers.append((source, layer))
        settings |= layer
    return combine(layers)


def comparison_of(
    configurations: Mapping[str, Resolved],
    seeds: int,
    sweep: Mapping[str, Any] | None = None,
    target: float | None = None,
) -> Comparison:
    """The comparison of these configurations, by name; each is that of its first seed.

    `sweep` has the values of each key, which may be a short one. A name that is not its algorithm's becomes the label
    of the curve, `run.label`. Raises InputError before anything runs if any of the runs does not fit.
    """
    swept = parse_sweep(sweep or {}, configurations)
    check_number(len(configurations), number_of_cells(swept), check_whole("seeds", seeds, 1))
    folders = folder_names(configurations)
    labelled = {name: with_label(name, resolved) for name, resolved in configurations.items()}
    cells = cells_of(swept)
    runs: dict[str, Resolved] = {}
    descriptions: dict[str, list[Description]] = {name: [] for name in labelled}
    for cell, cell_folder in zip(cells, cell_folders(cells), strict=True):
        for name, base in labelled.items():
            with named(cell, name):
                resolved = in_cell(base, cell) if cell else base
                simulation = simulation_of(resolved.config)
                _ = simulation.decision  # raises if anything does not fit
            descriptions[name].append(describe(resolved.config, simulation))
            for seed in range(resolved.config.run.seed, resolved.config.run.seed + seeds):
                folder = "/".join(filter(None, [cell_folder, folders[name], f"seed-{seed}"]))
                runs[folder] = with_values(resolved, {"run.seed": seed, "run.output": None}, BY_COMPARISON)
    outputs = [resolved.config.run.output for resolved in configurations.values()]
    output = Path(outputs[-1]) if outputs[-1] else None
    return Comparison(runs, target, output, tuple(swept), tuple(common_lines(descriptions)))


def check_number(algorithms: int, cells: int, seeds: int) -> None:
    runs = algorithms * cells * seeds
    if runs > MOST_RUNS:
        raise InputError(
            f"{product_text(algorithms, cells, seeds)} are {runs:,} runs; a comparison may have {MOST_RUNS:,}. "
            "Give fewer seeds or values of the sweep."
        )


def with_label(name: str, resolved: Resolved) -> Resolved:
    if resolved.config.run.label is not None:
        raise InputError(
            f"run.label is '{resolved.config.run.label}' for {name} ({resolved.source['run.label']}), but in a "
            "comparison the names are the labels; leave it out, and name variants: NAME=ALGORITHM."
        )
    if absolute_name(name) == resolved.config.algorithm.name:
        return resolved
    check_name(name)
    return with_values(resolved, {"run.label": name}, BY_COMPARISON)


@contextmanager
def named(cell: Values, name: str) -> Generator[None]:
    """A mistake inside says in which cell it is."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name} with {cell_name(cell)}: {error}" if cell else str(error)) from None


def size_text(comparison: Comparison) -> str:
    """ "2 algorithms x 3 cells x 3 seeds: 18 runs"."""
    folders = [["", *folder.split("/")][-3:] for folder in comparison.runs]
    cells, algorithms, seeds = (len(set(level)) for level in zip(*folders, strict=True))
    return f"{product_text(algorithms, cells, seeds)}: {counted(len(comparison.runs), 'run')}"


def product_text(algorithms: int, cells: int, seeds: int) -> str:
    counts = {"algorithm": algorithms, "cell": cells, "seed": seeds}
    return " x ".join(counted(number, noun) for noun, number in counts.items() if number > 1 or noun != "cell")


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
