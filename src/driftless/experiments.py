"""`driftless.run`, `compare`, `tune`, `load_run` and `report`: the commands, for objects of a script or a notebook.

Called again with the same output they continue what was interrupted, or return what is there; other settings, data,
models or code are an error that names the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from torch import nn

from driftless.algorithm import Algorithm
from driftless.compare import comparison_of, prepare_folder
from driftless.config.arguments import SOURCE, Arguments, Described, described
from driftless.config.build import algorithm_of, local_of
from driftless.config.resolution import Resolved, combine, full_keys, with_values
from driftless.config.user_code import using
from driftless.data.federation import Federation
from driftless.engine.history import Record
from driftless.engine.local import LocalTraining
from driftless.engine.ranks import all_ranks, current, refuse_ranks
from driftless.errors import InputError, check_choice, check_type, unknown
from driftless.final_values import plain_text
from driftless.progress import rounds_bar
from driftless.report.summary import Summary, summarise
from driftless.report.tables import record, rich_tables
from driftless.runs.callbacks import Callback, ShowProgress
from driftless.runs.directory import StoredRun, find_runs, is_run
from driftless.runs.jobs import play
from driftless.runs.run import check_same_run, start_or_resume
from driftless.tune.plan import DEFAULTS, Tune, plan_search
from driftless.tune.space import table_of

Place = str | PathLike[str]
Model = nn.Module | str | Callable[..., nn.Module]
"""A module, whose parameters are x^0, a name of ours, or a class or function that makes one from the run's seed."""
WIDTH = 100
"""Columns of a table that is printed from Python."""


class CallOnRound(Callback):
    """`on_round=` of a run on disk."""

    def __init__(self, function: Callable[[Record], object]) -> None:
        self._function = function

    def on_round(self, record: Record) -> None:
        self._function(record)


def run(
    algorithm: Algorithm | str,
    federation: Federation,
    model: Model,
    *,
    output: Place,
    on_round: Callable[[Record], object] | None = None,
    callbacks: Iterable[Callback] = (),
    progress: bool = False,
    **arguments: Unpack[Arguments],
) -> StoredRun:
    """`simulate` on disk: a run directory that can be resumed after a kill, compared and reported.

    Called again with the same `output` it continues what was interrupted, to the same bits, or returns what is there.
    Other settings, data, models or code are an error that names the difference; nothing is overwritten.

    Args:
        algorithm: A name of `driftless list algorithms`, or an instance.
        federation: The data.
        model: A name of `driftless list models`; a module, whose parameters are x^0; or a class or function that makes
            one, called with the run's seed set. A parameter called `federation` gets the federation.
        output: The folder of the run.
        on_round: A function that is called after each round with a `Record`; a text that it returns is ignored.
        callbacks: Objects of `driftless.runs.callbacks.Callback`, such as trackers.
        progress: True shows a progress bar in a terminal or a notebook.
        **arguments: The other arguments of `simulate`, of which `rounds` and `cohort` are needed, but for `state`;
            `output` of `simulate` is called `model_output` here. Also `checkpoint_every` (rounds, default 10), `target`
            (a value of what the run is judged by), `stop_at_target` (True ends the run there) and `patience`
            (evaluations without a better value after which the run ends). `evaluate_every=None`: as often as is cheap.

    Returns:
        The run, as `load_run` reads it.

    Raises:
        InputError: When something does not fit, or the folder holds another run.
        Diverged: When training gives no finite update for several rounds in a row.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> run = driftless.run("scaffold", federation, "logistic", output="runs/mine", rounds=2, cohort=4)
        >>> run.result["status"], len(run.history)
        ('finished', 2)
    """
    folder = as_folder(output)
    check_choice("progress", progress, (True, False))
    if on_round is not None:
        check_type("on_round", on_round, Callable, "a function of a driftless.Record", "leave it out if you need none")
        callbacks = [CallOnRound(on_round), *callbacks]
    made = described(algorithm, federation, model, arguments)
    with all_ranks(), using(made.objects):
        resolved = made.resolved()
        if current().rank == 0 and is_run(folder):
            check_same_run(folder, resolved)
        title, rounds = resolved.config.algorithm.name.rpartition(":")[2], resolved.config.run.rounds
        with rounds_bar(title, rounds, quiet=not progress or current().rank > 0) as bar:
            return start_or_resume(folder, [ShowProgress(bar), *callbacks], resolved)


def load_run(directory: Place) -> StoredRun:
    """Read a run directory that `driftless.run`, `compare`, `tune` or the command line has written.

    Args:
        directory: The folder of one run.

    Returns:
        The run: `history`, `config`, `events`, `result`, `state`, and `module()` for what was trained.

    Raises:
        InputError: When the folder is no run.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> run = driftless.run("fedavg", federation, "logistic", output="runs/mine", rounds=1, cohort=4)
        >>> driftless.load_run("runs/mine").history["round"]
        [1]
    """
    folder = as_folder(directory)
    if not is_run(folder):
        raise InputError(f"'{folder}' is not a run directory; give one that `driftless.run` or `driftless run` made.")
    return StoredRun(folder)


def report(runs: Sequence[Place], file: Place, *, target: float | None = None) -> Path:
    """Write one self-contained HTML page about runs.

    Args:
        runs: Folders of runs, or folders that hold some at any depth; one folder may be given as it is.
        file: The page to write.
        target: The value up to which rounds and bytes are counted; None: what the runs were given, else the final
            quality of FedAvg, or without it nine tenths of the best final value.

    Returns:
        The path of the page.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> run = driftless.run("fedavg", federation, "logistic", output="runs/mine", rounds=1, cohort=4)
        >>> driftless.report(["runs/mine"], "page.html").exists()
        True
    """
    from driftless.report.html import write_report  # plotting libraries are slow to import

    if isinstance(runs, str | PathLike):
        runs = [runs]
    return write_report(find_runs(map(as_folder, runs)), Path(file), target=target)


def as_folder(place: object) -> Path:
    check_type("output", place, str | PathLike, "the path of a folder", 'for example output="runs/mine"')
    return Path(place)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class ComparisonResult:
    """The runs of a comparison, and what they come to; prints as a table.

    Attributes:
        folder: Where the runs are.
        runs: All runs, one for each algorithm, cell of a sweep and seed.
        rows: For each algorithm, in each cell of a sweep: means and deviations over seeds, costs. The best first.
        summary: What the table and the report are made of.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> table = driftless.compare(
        ...     ["fedavg"], federation, "logistic", output="runs/one", seeds=2, jobs=1, rounds=1, cohort=4
        ... )
        >>> table.rows[0]["algorithm"], table.rows[0]["seeds"], len(table.runs)
        ('fedavg', 2, 2)
    """

    folder: Path
    runs: list[StoredRun]
    rows: list[dict[str, Any]]
    summary: Summary = field(repr=False)

    def __str__(self) -> str:
        return plain_text(*rich_tables(self.summary), width=WIDTH).rstrip()


def compare(
    algorithms: Mapping[str, Algorithm | str] | Sequence[str],
    federation: Federation,
    model: Model,
    *,
    output: Place,
    seeds: int = 3,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    jobs: int | None = None,
    progress: bool = False,
    **arguments: Unpack[Arguments],
) -> ComparisonResult:
    """Run several algorithms with the same seeds, `seed`, `seed` + 1, ..., and compare them.

    Called again with the same `output` it continues, or returns what is there, as `run` does.

    Args:
        algorithms: Names of algorithms; or a dict of algorithms, by name or as instances, under the names of their
            curves.
        federation: The data.
        model: As of `run`. A class or function makes one for each seed; a module begins all of them.
        output: The folder of the comparison.
        seeds: The number of seeds. Default 3.
        sweep: Values of settings over which all is repeated: {"local.epochs": [1, 5]}.
        settings: By name, settings that differ: {"scaffold": {"local.lr": 0.05}}.
        jobs: Runs at the same time; None: one a core.
        progress: True shows a progress bar in a terminal or a notebook.
        **arguments: The further arguments of `run`; `rounds` and `cohort` are needed.

    Returns:
        The runs, and a row for each algorithm; prints as a table.

    Raises:
        InputError: When something does not fit, or the folder holds another comparison.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> weak, strong = driftless.algorithms.FedProx(mu=0.01), driftless.algorithms.FedProx(mu=1.0)
        >>> table = driftless.compare(
        ...     {"weak": weak, "strong": strong}, federation, "logistic",
        ...     output="runs/both", seeds=1, jobs=1, rounds=1, cohort=4,
        ... )
        >>> sorted(row["curve"] for row in table.rows)
        ['strong', 'weak']
    """
    refuse_ranks("compare")
    folder, target = as_folder(output), arguments.get("target")
    check_choice("progress", progress, (True, False))
    named = algorithms if isinstance(algorithms, Mapping) else {name: name for name in algorithms}
    for name in settings or {}:
        if name not in named:
            raise unknown("name in settings", name, named)
    objects: dict[str, Any] = {}
    made = {name: described(each, federation, model, arguments, name, objects) for name, each in named.items()}
    with using(objects):
        comparison = comparison_of(
            {name: config_of(each, (settings or {}).get(name, {})) for name, each in made.items()}, seeds, sweep, target
        )
        prepare_folder(comparison, folder)
        for name, resolved in comparison.runs.items():
            if is_run(folder / name) and resolved.config.run.seed == arguments.get("seed", 0):
                check_same_run(folder / name, resolved)
        with rounds_bar(f"{len(comparison.runs)} runs", comparison.rounds, quiet=not progress) as bar:
            runs = play([folder / name for name in comparison.runs], bar, jobs)
    summary = summarise(runs, target)
    return ComparisonResult(folder, runs, [record(row, summary) for row in summary.rows], summary)


def config_of(made: Described, own: Mapping[str, Any]) -> Resolved:
    """One process each: several runs side by side are faster than one run in several processes."""
    base = {"engine.workers": 1, **made.values}
    return combine([(SOURCE, base), ("settings", full_keys(own, base))])


@dataclass(frozen=True)
class Best:
    """What a search has found; prints as a sentence.

    Attributes:
        settings: The best settings by their full keys, such as {"local.lr": 0.1, "algorithm.mu": 0.02}.
        value: The value of the objective, on the held-out clients.
        measure: What the objective is, such as "validation_accuracy".
        algorithm: The algorithm with the best settings.
        local: The local training with the best settings.
        trials: All trials as dicts, the best first.
        folder: Where the trials are.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, validation=2, seed=0)
        >>> best = driftless.tune(
        ...     "fedavg", federation, "logistic",
        ...     output="runs/one", space={"lr": [0.1]}, trials=1, jobs=1, rounds=1, cohort=4,
        ... )
        >>> print(best)
        validation_accuracy ... with local.lr=0.1 (best of 1 trials, in runs/one)
        >>> best.local.lr
        0.1
    """

    settings: dict[str, Any]
    value: float
    measure: str
    algorithm: Algorithm
    local: LocalTraining
    trials: list[dict[str, Any]]
    folder: Path

    def __str__(self) -> str:
        found = ", ".join(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                          for key, value in self.settings.items())  # fmt: skip
        return f"{self.measure} {self.value:.4f} with {found} (best of {len(self.trials)} trials, in {self.folder})"


def tune(
    algorithm: Algorithm | str,
    federation: Federation,
    model: Model,
    *,
    output: Place,
    space: Mapping[str, Any] | None = None,
    trials: int | None = None,
    seeds: int = 1,
    sampler: str = "tpe",
    pruner: str = "median",
    last: int = 5,
    jobs: int | None = None,
    progress: bool = False,
    **arguments: Unpack[Arguments],
) -> Best:
    """Search for the best settings of an algorithm, judged on held-out clients. Needs `pip install driftless[tune]`.

    The held-out clients are those of the federation, or a fifth of all. Called again with the same `output` it
    continues.

    Args:
        algorithm: A name of `driftless list algorithms`, or an instance.
        federation: The data.
        model: As of `run`.
        output: The folder of the search.
        space: For each setting, by its short or full name, a list of values, a range (low, high) or (low, high, "log").
            None: the learning rate and what the algorithm has to tune.
        trials: Trials in all, those of earlier calls included. None: 30, of a grid every point.
        seeds: Runs of each trial. Default 1.
        sampler: "tpe" (default), "random" or "grid".
        pruner: "median" (default) stops a trial that is worse than the median of the others; "none".
        last: Evaluations at the end of a run whose mean is the objective. Default 5.
        jobs: Runs at the same time; None: one a core.
        progress: True shows a progress bar in a terminal or a notebook.
        **arguments: The further arguments of `run`; `rounds` and `cohort` are needed.

    Returns:
        The best settings, and all trials.

    Raises:
        InputError: When something does not fit, the folder holds another search, or no trial ended well.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=10, validation=2, seed=0)
        >>> best = driftless.tune(
        ...     "fedprox", federation, "logistic", output="runs/search",
        ...     space={"mu": (0.001, 1.0, "log"), "lr": [0.1, 0.3]}, trials=2, jobs=1, rounds=1, cohort=4,
        ... )
        >>> sorted(best.settings), len(best.trials)
        (['algorithm.mu', 'local.lr'], 2)
    """
    refuse_ranks("tune")
    folder = as_folder(output)
    check_choice("progress", progress, (True, False))
    made = described(algorithm, federation, model, arguments)
    with using(made.objects):
        made.values = {**DEFAULTS, **made.values, "run.output": str(folder)}
        options = Tune(trials=trials, seeds=seeds, sampler=sampler, pruner=pruner, last=last, space=table_of(space))
        plan = plan_search(made.resolved(), options)
        from driftless.tune import search  # needs Optuna, which is an extra

        with rounds_bar(f"{plan.trials} trials", plan.rounds, quiet=not progress) as bar:
            outcome = search.execute(plan, folder, bar, jobs)
        if outcome.best is None:
            raise InputError(f"no trial in '{folder}' ended well; try a space with smaller learning rates (local.lr).")
        config = with_values(plan.base, outcome.best.params, "the search").config
        value = outcome.shown(outcome.best.value)
        assert value is not None
        return Best(
            dict(outcome.best.params), value, plan.objective, algorithm_of(config), local_of(config),
            search.as_json(outcome)["trials"], folder,
        )  # fmt: skip
