"""Several algorithms, several seeds, one table."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import Field, ValidationError

from driftless.errors import Diverged, InputError, unknown
from driftless.experiment.build import arguments, run
from driftless.experiment.config import Config, Section, Values, combine, flatten, parse_overrides, read_toml
from driftless.experiment.user_code import algorithm_class


class Compare(Section):
    """The `[compare]` table of a configuration file."""

    algorithms: tuple[str, ...] = ()
    seeds: int = 3
    target: float | None = None
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Per algorithm, settings that differ from the rest of the file: its own learning rate, for example."""


@dataclass(frozen=True)
class Comparison:
    """What is to be run: a configuration for each algorithm and seed."""

    algorithms: tuple[str, ...]
    seeds: tuple[int, ...]
    target: float | None
    configs: dict[tuple[str, int], Config] = field(repr=False)


class Outcome(NamedTuple):
    """What is kept of a run."""

    rows: list[dict[str, float]]
    diverged: str | None = None


class Line(NamedTuple):
    """One algorithm in the table, over its seeds."""

    algorithm: str
    accuracy: float | None
    """Mean of the final test accuracies; None when a run diverged or there is no test accuracy."""
    deviation: float
    rounds_to_target: float | None
    """Mean over the seeds; None if some seed never reached it."""
    megabytes_to_target: float | None
    norm: float | None
    diverged: int
    """Seeds that diverged."""


class Table(NamedTuple):
    lines: list[Line]
    target: float | None
    """Test accuracy that "to target" refers to."""


def plan(algorithms: Sequence[str], file: Path | None, overrides: Iterable[str]) -> Comparison:
    """Resolve and check every run before the first one starts."""
    table = read_toml(file) if file else {}
    options = compare_options(table.pop("compare", {}), file)
    base: Values = flatten(file, table) if file else {}
    own, run_overrides = split_own(overrides)
    options = options.model_copy(update=own)
    names = tuple(algorithms) or tuple(options.algorithms)
    if not names:
        raise InputError("no algorithm to compare; name some, e.g. driftless compare fedavg scaffold adabest.")
    for name in options.settings:
        algorithm_class(name)
    configs: dict[tuple[str, int], Config] = {}
    first = combine([(str(file), base), ("command line", parse_overrides(run_overrides, base))]).config.run.seed
    seeds = tuple(range(first, first + options.seeds))
    for name in names:
        for seed in seeds:
            configs[name, seed] = config_of(name, seed, base, options.settings.get(name, {}), run_overrides, file)
        arguments(configs[name, seeds[0]])
    return Comparison(names, seeds, options.target, configs)


def config_of(
    name: str, seed: int, base: Values, settings: dict[str, Any], overrides: list[str], file: Path | None
) -> Config:
    tuned = {"algorithm.name": name} | parse_settings(name, settings, base)
    given = parse_overrides(overrides, {**base, **tuned})
    where = f"compare.settings.{name} of {file}"
    return combine([(str(file), base), (where, tuned), ("command line", given | {"run.seed": seed})]).config


def parse_settings(name: str, settings: dict[str, Any], base: Values) -> Values:
    """`{"local.lr": 0.1}` or nested tables `{"local": {"lr": 0.1}}`."""
    nested = {k: v for k, v in settings.items() if isinstance(v, dict)}
    flat = {k: v for k, v in settings.items() if not isinstance(v, dict)}
    values = flatten(Path(f"compare.settings.{name}"), nested)
    below = {**base, "algorithm.name": name}
    return values | {parse_key(key, below): value for key, value in flat.items()}


def parse_key(key: str, below: Values) -> str:
    (full,) = parse_overrides([f"{key}=0"], below)
    return full


def compare_options(table: Any, file: Path | None) -> Compare:
    if not isinstance(table, dict):
        raise InputError(f"'compare' of {file} must be a table: write [compare] and its keys below it.")
    for key in table:
        if key not in Compare.model_fields:
            raise unknown(f"key of section 'compare' of {file}", key, Compare.model_fields)
    try:
        return Compare.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"compare.{'.'.join(map(str, first['loc']))} of {file}: {first['msg']}.") from None


def split_own(overrides: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """`seeds=5` and `target=0.9` belong to the comparison, the rest to its runs."""
    own: dict[str, Any] = {}
    rest: list[str] = []
    for text in overrides:
        key, _, value = text.partition("=")
        if key in ("seeds", "target"):
            own[key] = number(key, value, int if key == "seeds" else float)
        else:
            rest.append(text)
    if own.get("seeds", 1) < 1:
        raise InputError(f"seeds must be at least 1, got {own['seeds']}.")
    return own, rest


def number(key: str, text: str, kind: type) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise InputError(f"{key} must be a {'whole ' if kind is int else ''}number, got '{text}'.") from None


def execute(comparison: Comparison, progress: Callable[[int], object], jobs: int | None = None) -> Table:
    """Run everything; `progress` hears how many rounds are done in all."""
    jobs = min(jobs or os.cpu_count() or 1, len(comparison.configs))
    context = multiprocessing.get_context("spawn")
    rounds = context.Value("q", 0)
    with ProcessPoolExecutor(jobs, context, _start_worker, (rounds,)) as pool:
        futures = {key: pool.submit(_outcome, config) for key, config in comparison.configs.items()}
        while not all(future.done() for future in futures.values()):
            progress(rounds.value)
            time.sleep(0.1)
            failed = next((f for f in futures.values() if f.done() and f.exception()), None)
            if failed is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                failed.result()
        progress(rounds.value)
        outcomes = {key: future.result() for key, future in futures.items()}
    target = comparison.target if comparison.target is not None else default_target(list(outcomes.values()))
    lines = [line(name, [outcomes[name, seed] for seed in comparison.seeds], target) for name in comparison.algorithms]
    return Table(lines, target)


_rounds: Any = None  # a worker's handle on the number of rounds that all workers have done


def _start_worker(rounds: Any) -> None:
    global _rounds
    _rounds = rounds
    # One thread each: two runs side by side are faster than one run on two threads, and the bits do not depend on jobs.
    torch.set_num_threads(1)


def _outcome(config: Config) -> Outcome:
    def count(_: object) -> None:
        with _rounds.get_lock():
            _rounds.value += 1

    try:
        return Outcome(list(run(config, count).history))
    except Diverged as error:
        return Outcome(list(error.history), str(error))


def default_target(outcomes: list[Outcome]) -> float | None:
    """Nine tenths of the best final accuracy, rounded to a percent."""
    finals = [final(outcome, "test_accuracy") for outcome in outcomes]
    known = [value for value in finals if value is not None]
    return round(0.9 * max(known), 2) if known else None


def line(name: str, outcomes: list[Outcome], target: float | None) -> Line:
    finals = [None if o.diverged else final(o, "test_accuracy") for o in outcomes]
    known = [value for value in finals if value is not None]
    whole = len(known) == len(outcomes)
    reached = [to_target(o, target) for o in outcomes]
    norms = [value for o in outcomes if (value := final(o, "norm_x")) is not None]
    return Line(
        name,
        statistics.fmean(known) if whole else None,
        statistics.stdev(known) if whole and len(known) > 1 else 0.0,
        _mean([r and r[0] for r in reached]),
        _mean([r and r[1] for r in reached]),
        statistics.fmean(norms) if norms else None,
        sum(o.diverged is not None for o in outcomes),
    )


def _mean(values: list[Any]) -> float | None:
    return None if any(value is None for value in values) else statistics.fmean(values)


def to_target(outcome: Outcome, target: float | None) -> tuple[float, float] | None:
    """(round, megabytes sent until then) when the test accuracy first reaches the target."""
    sent = 0.0
    for row in outcome.rows:
        sent += row["bytes_down"] + row["bytes_up"]
        if target is not None and row.get("test_accuracy", -1.0) >= target:
            return row["round"], sent / 1e6
    return None


def final(outcome: Outcome, name: str) -> float | None:
    return next((row[name] for row in reversed(outcome.rows) if name in row), None)
