"""run, resume, compare, tune: commands that make runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from driftless import failures
from driftless.cli.arguments import (
    AlgorithmArguments,
    Arguments,
    Callbacks,
    Jobs,
    Json,
    Quiet,
    Track,
    callbacks_of,
    reject_names,
    split_arguments,
)
from driftless.compare import (
    Comparison,
    execute,
    is_comparison,
    is_variant,
    plan,
    read_comparison,
    resume,
    size_text,
)
from driftless.config import resolution
from driftless.config.build import simulation_of
from driftless.config.user_code import text_only
from driftless.console import (
    announcement,
    err,
    loading,
    out,
    print_json,
    print_line,
    rounds_bar,
    short_name,
    show_run,
    tell,
)
from driftless.engine.launcher import may_restart, restarts
from driftless.engine.ranks import current, refuse_ranks
from driftless.errors import InputError, WorkerDied
from driftless.runs import run
from driftless.runs.callbacks import ShowProgress
from driftless.runs.directory import StoredRun, command, default_directory, free_name, is_run, set_aside
from driftless.tune import plan as search_plan


def run_command(
    words: Arguments = None,
    print_config: Annotated[bool, typer.Option("--print-config", help="Show every setting and its source.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Run again; keeps the old run under another name.")] = False,
    track: Track = None,
    callback: Callbacks = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run one experiment: driftless run algorithm=adabest data=digits rounds=60 cohort=10 seed=3"""
    algorithms, file, overrides = split_arguments(words or [])
    reject_names(algorithms)
    first = current().rank == 0
    callbacks = callbacks_of(track, callback) if first else []
    if print_config:
        print_config_of(file, overrides)
        return
    resolved = resolution.resolve(file, overrides)
    config = resolved.config
    if may_restart() and not config.run.output:
        raise InputError("torchrun may restart this run (--max-restarts), which then has to find it: give output=DIR.")
    directory = Path(config.run.output) if config.run.output else default_directory(config)
    restarted = restarts() > 0
    if restarted and first and is_run(directory):
        run.check_same_run(directory, resolved)
    if again and first and not restarted:
        simulation_of(config)  # a mistake leaves the old run where it is
        if (old := set_aside(directory)) and not as_json:
            print_line(f"the old run is now {old}")
    silent, name = quiet or as_json, short_name(config.algorithm.name)
    with (
        loading(f"loading {config.data.name} ...", silent) as loaded,
        rounds_bar(name, config.run.rounds, silent) as bar,
    ):
        announce = announcement(loaded, silent)
        if restarted:
            stored = run.start_or_resume(directory, [ShowProgress(bar), *callbacks], resolved, announce=announce)
        else:
            stored = run.start(resolved, directory, [ShowProgress(bar), *callbacks], announce)
    if current().rank == 0:
        show_result(stored, quiet, as_json)


def print_config_of(file: Path | None, overrides: Sequence[str]) -> None:
    """Code that only the file names, which may be of a run directory, is not imported to show it."""
    named = any(text.partition("=")[0].strip() in ("algorithm", "algorithm.name") for text in overrides)
    with nullcontext() if named else text_only():
        print_line(resolution.to_toml(resolution.resolve(file, overrides)))


def resume_command(
    directory: Annotated[Path, typer.Argument(help="A run, a comparison or a search that was interrupted.")],
    jobs: Jobs = None,
    trust: Annotated[bool, typer.Option("--trust", help="Import your algorithm's file though it was changed.")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes of a run, if other than before.", min=1)] = None,
    device: Annotated[str | None, typer.Option(help="Another device than before; the last bits may differ.")] = None,
    track: Track = None,
    callback: Callbacks = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Continue an interrupted run, comparison or search, to the same bits as if it had never stopped."""
    if search_plan.is_study(directory) or is_comparison(directory):
        refuse_ranks("a comparison or a search")
    if search_plan.is_study(directory):
        finish_search(search_plan.read_plan(directory, trust), directory, jobs, quiet, as_json)
        return
    if is_comparison(directory):
        play = partial(resume, trust=trust)
        finish_comparison(read_comparison(directory), directory, jobs, quiet, as_json, play=play)
        return
    rounds, silent = StoredRun(directory).config.run.rounds if is_run(directory) else 0, quiet or as_json

    def warn(problem: str) -> None:
        err.print(f"warning: {problem}", markup=False, soft_wrap=True)

    callbacks = callbacks_of(track, callback) if current().rank == 0 else []
    with loading(f"loading {directory} ...", silent) as loaded, rounds_bar(directory.name, rounds, silent) as bar:
        announce = announcement(loaded, silent)
        stored = run.resume(directory, [ShowProgress(bar), *callbacks], warn, workers, trust, announce, device)
    if current().rank == 0:
        show_result(stored, quiet, as_json)


def show_result(stored: StoredRun, quiet: bool, as_json: bool) -> None:
    """Show the result of a run; exit code 3 if it diverged."""
    result = stored.result or {}
    if as_json:
        print_json({"directory": str(stored.path), **result})
    elif not quiet:
        show_run(stored)
        if result["status"] == "stopped":
            print_line(f"stopped: {result['reason']}")
        print_line(f"saved in {stored.path}; next: {command('report', stored.path)}")
    if result["status"] == "diverged":
        err.print(f"[bold red]{escape(result['reason'])}[/]", soft_wrap=True, highlight=False)
        raise typer.Exit(failures.DIVERGED)


def compare_command(
    words: AlgorithmArguments = None,
    jobs: Jobs = None,
    full: Annotated[bool, typer.Option("--full", help="All columns: costs in examples and time, last rounds.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare algorithms over seeds: driftless compare fedavg scaffold weak=fedprox,mu=0.01 rounds=100 seeds=3"""
    refuse_ranks("compare")
    algorithms, file, overrides = split_arguments(words or [], is_variant)
    with loading("loading the data and checking all runs ...", quiet or as_json):
        comparison = plan(algorithms, file, overrides)
    title = file.stem if file else next(iter(comparison.runs.values())).config.data.name
    folder = comparison.output or free_name(Path("runs") / f"compare-{title}")
    finish_comparison(comparison, folder, jobs, quiet, as_json, full)


def finish_comparison(
    comparison: Comparison,
    folder: Path,
    jobs: int | None,
    quiet: bool,
    as_json: bool,
    full: bool = False,
    play: Callable[..., list[StoredRun]] = execute,
) -> None:
    from driftless.report import summary, tables  # plotting libraries are slow to import: only where they are needed

    if not (quiet or as_json):
        print_line(size_text(comparison))
        tell(comparison.about)
    by = command("resume", folder)
    with rounds_bar(f"{len(comparison.runs)} runs", comparison.rounds, quiet or as_json) as bar, continued(by):
        runs = play(comparison, folder, bar, jobs)
    summed = summary.summarise(runs, comparison.target)
    if as_json:
        print_json({"directory": str(folder), **tables.json_record(summed)})
        return
    for table in tables.rich_tables(summed, full):
        out.print(table)
    if not quiet:
        print_line(f"saved in {folder}; next: {command('report', folder)}")


def tune_command(words: Arguments = None, jobs: Jobs = None, quiet: Quiet = False, as_json: Json = False) -> None:
    """Search hyper-parameters on held-out clients: driftless tune algorithm=adabest trials=20 space.beta=[0.5,0.8]"""
    refuse_ranks("tune")
    algorithms, file, overrides = split_arguments(words or [])
    reject_names(algorithms)
    with loading("loading the data and checking the search ...", quiet or as_json):
        plan = search_plan.plan(file, overrides)
    finish_search(plan, plan.folder, jobs, quiet, as_json)


def finish_search(plan: search_plan.Plan, folder: Path, jobs: int | None, quiet: bool, as_json: bool) -> None:
    from driftless.report.search_plot import write_search_plot
    from driftless.tune import search  # needs Optuna, which is an extra

    if not (quiet or as_json):
        tell([*plan.about, *plan.notes])
    resume = command("resume", folder)
    with rounds_bar(f"{plan.trials} trials", plan.rounds, quiet or as_json) as bar, continued(resume):
        outcome = search.execute(plan, folder, bar, jobs)
    if outcome.best is None:
        raise InputError(
            f"no trial in '{folder}' ended well; try a space with smaller learning rates (space.local.lr)."
        )
    write_search_plot(outcome)
    if as_json:
        print_json(search.as_json(outcome))
        return
    out.print(search.rich_table(outcome))
    if not quiet:
        print_line(f"saved in {folder}, with search.png; next: {command('run', folder / 'best.toml')}")


@contextmanager
def continued(by: str) -> Generator[None]:
    """Ctrl-C, and a process that was killed, end with the command that continues."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        err.print(f"{str(interrupt) or 'stopped'}; continue with: {by}", markup=False, soft_wrap=True)
        raise typer.Exit(failures.INTERRUPTED) from None
    except WorkerDied as error:
        raise WorkerDied(f"{error}\nContinue with: {by}") from error
