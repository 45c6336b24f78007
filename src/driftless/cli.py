"""The command line. Every command ends with the next step; a user's mistake gives one line, never a traceback."""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from driftless import __version__, failures, starting
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
    LISTS,
    announcement,
    err,
    loading,
    out,
    print_json,
    print_line,
    rounds_bar,
    short_name,
    show_failure,
    show_run,
    tell,
)
from driftless.errors import InputError, WorkerDied, unknown
from driftless.project import write_project
from driftless.report.metrics import plural
from driftless.runs import run, trackers
from driftless.runs.callbacks import Callback, ShowProgress
from driftless.runs.directory import StoredRun, command, default_directory, find_runs, free_name, is_run, set_aside
from driftless.tune import plan as search_plan

app = typer.Typer(
    name="driftless",
    help="Federated optimisation: compare some thirty algorithms, exactly reproducibly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

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
REPRODUCED = Path("runs") / "reproduce"
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]


def main() -> None:
    """Entry point: whatever goes wrong becomes one message and an exit code."""
    starting.erase()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # a full disk is noticed here, not when Python has ended
    except (Exception, KeyboardInterrupt) as error:
        failure = failures.explain(error)
        show_failure(failure)
        sys.exit(failure.code)


def _version(wanted: bool) -> None:
    if wanted:
        print_line(f"driftless {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass


@app.command("run")
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
    callbacks = callbacks_of(track, callback)
    if print_config:
        print_config_of(file, overrides)
        return
    resolved = resolution.resolve(file, overrides)
    config = resolved.config
    directory = Path(config.run.output) if config.run.output else default_directory(config)
    if again:
        simulation_of(config)  # a mistake leaves the old run where it is
        if (old := set_aside(directory)) and not as_json:
            print_line(f"the old run is now {old}")
    silent, name = quiet or as_json, short_name(config.algorithm.name)
    with (
        loading(f"loading {config.data.name} ...", silent) as loaded,
        rounds_bar(name, config.run.rounds, silent) as bar,
    ):
        announce = announcement(loaded, silent)
        stored = run.start(resolved, directory, [ShowProgress(bar), *callbacks], announce)
    show_result(stored, quiet, as_json)


def print_config_of(file: Path | None, overrides: Sequence[str]) -> None:
    """Code that only the file names, which may be of a run directory, is not imported to show it."""
    named = any(text.partition("=")[0].strip() in ("algorithm", "algorithm.name") for text in overrides)
    with nullcontext() if named else text_only():
        print_line(resolution.to_toml(resolution.resolve(file, overrides)))


@app.command("resume")
def resume_command(
    directory: Annotated[Path, typer.Argument(help="A run, a comparison or a search that was interrupted.")],
    jobs: Jobs = None,
    trust: Annotated[bool, typer.Option("--trust", help="Import your algorithm's file though it was changed.")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes of a run, if other than before.", min=1)] = None,
    track: Track = None,
    callback: Callbacks = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Continue an interrupted run, comparison or search, to the same bits as if it had never stopped."""
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

    callbacks = callbacks_of(track, callback)
    with loading(f"loading {directory} ...", silent) as loaded, rounds_bar(directory.name, rounds, silent) as bar:
        announce = announcement(loaded, silent)
        stored = run.resume(directory, [ShowProgress(bar), *callbacks], warn, workers, trust, announce)
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


@app.command("compare")
def compare_command(
    words: AlgorithmArguments = None,
    jobs: Jobs = None,
    full: Annotated[bool, typer.Option("--full", help="All columns: costs in examples and time, last rounds.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare algorithms over seeds: driftless compare fedavg scaffold weak=fedprox,mu=0.01 rounds=100 seeds=3"""
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


@app.command("tune")
def tune_command(words: Arguments = None, jobs: Jobs = None, quiet: Quiet = False, as_json: Json = False) -> None:
    """Search hyper-parameters on held-out clients: driftless tune algorithm=adabest trials=20 space.beta=[0.5,0.8]"""
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


@app.command("report")
def report_command(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or folders that hold some.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page. Default: report.html there.")] = None,
    figure_folder: Annotated[
        Path | None, typer.Option("--figures", help="Write PDF, SVG and PNG figures into this folder.")
    ] = None,
    target: Annotated[float | None, typer.Option(help="Accuracy that costs are counted to.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace any file, and figures.")] = False,
) -> None:
    """Write one self-contained page about runs: curves, tables, the partition, notes on the runs."""
    from driftless.report import figures, html

    found = find_runs(runs)
    if figure_folder:
        written = figures.write_figures(found, figure_folder, target=target, overwrite=overwrite)
        print_line(f"{len(written)} figures in {figure_folder}")
        return
    file = output or runs[0] / "report.html"
    html.write_report(found, file, target=target, overwrite=overwrite)
    print_line(f"wrote {file} ({plural(len(found), 'run')}); next: open it in a browser; for a paper: --figures DIR")


@app.command("watch")
def watch_command(
    folders: Annotated[list[Path], typer.Argument(help="Run directories, comparisons, or folders that hold some.")],
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="0: any that is free. Default: 8642.", show_default=False)
    ] = None,
    target: Annotated[float | None, typer.Option(help="Accuracy that costs are counted to.")] = None,
) -> None:
    """Follow runs in a browser while they go on; the page is served on this machine alone."""
    from driftless.report import live

    with live.open_server(folders, live.PORT if port is None else port, target) as server:
        print_line(f"watching {', '.join(map(str, folders))}; next: open {server.url} in a browser")
        tunnel = f"ssh -L {server.port}:{live.ADDRESS}:{server.port} {socket.gethostname()}"
        print_line(f"from another machine: {tunnel}, then open http://localhost:{server.port}/ there")
        print_line("Ctrl-C ends watching; the runs go on")
        with suppress(KeyboardInterrupt):
            server.serve_forever()


@app.command("cost")
def cost_command(
    algorithms: Annotated[list[str] | None, typer.Argument(help="Names; default: all.", show_default=False)] = None,
    model: Annotated[str, typer.Option(help="A name of `driftless list models`.")] = "mlp",
    data: Annotated[str, typer.Option(help="The data set whose inputs the model takes.")] = "digits",
    steps: Annotated[int, typer.Option(help="Local steps K.")] = 10,
    batch_size: Annotated[int, typer.Option(help="Examples per step.")] = 32,
    examples: Annotated[int | None, typer.Option(help="Examples per client. Default: steps x batch size.")] = None,
    as_json: Json = False,
) -> None:
    """Vectors, bytes and FLOPs per client and round, derived from each algorithm's own code."""
    from driftless import cost
    from driftless.papers import cost_tables

    costs = cost.cost_table(
        algorithms or (), model=model, data=data, steps=steps, batch_size=batch_size, examples=examples
    )
    if as_json:
        print_json(cost.as_rows(costs))
        return
    out.print(cost.rich_table(costs))
    cells = cost_tables.comparison(algorithms or ())
    if not algorithms:
        out.print(cost_tables.rich_summary(cells))
        cells = [cell for cell in cells if not cell.agrees]
    if cells:
        out.print(cost_tables.rich_comparison(cells))
    print_line("next: driftless cost fedavg scaffold --model cnn --steps 55, or docs/cost.md for what is counted")


@app.command()
def reproduce(
    names: Annotated[
        list[str], typer.Argument(metavar="PAPER/EXPERIMENT...", help="Or PAPER; see `driftless list papers`.")
    ],
    scale_name: Annotated[
        str, typer.Option("--scale", help="smoke: it runs; small: minutes; paper: as published.")
    ] = "small",
    output: Annotated[Path, typer.Option("--output", "-o", help="Where runs are kept and used again.")] = REPRODUCED,
    publish: Annotated[
        Path | None, typer.Option(help="Write the paper's page, figures and results into this folder.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show rules, runs and data; run nothing.")] = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run experiments of a paper and judge its claims: driftless reproduce adabest/figure-1 --scale small"""
    with loading("loading the experiments ...", quiet or as_json):
        from driftless.papers import PAPERS, VERDICTS_FILE, chosen
        from driftless.reproduce import pages, runner, verdicts

    scale = runner.as_scale(scale_name)
    wanted = chosen(names)
    for paper, experiment in wanted:
        if not (quiet or as_json):
            out.print(pages.rules_table(experiment))
        setup = experiment.setup(scale)
        planned = runner.plan(setup, output) if setup else []
        if plan:
            print_line(pages.plan_text(experiment, scale, planned))
            continue
        title, total = f"{paper.name}/{experiment.name}", runner.total_rounds(planned)
        with (
            rounds_bar(title, total, quiet or as_json) as bar,
            continued(f"driftless reproduce {title} --scale {scale}"),
        ):
            done = runner.reproduce(paper, experiment, scale, output, jobs, bar)
        if publish:
            pages.publish(done, publish)
            pages.write_index(PAPERS.values(), publish)
            verdicts.refresh_summary(PAPERS.values(), publish, VERDICTS_FILE)
        if as_json:
            print_json(runner.record(done))
            continue
        if (numbers := pages.numbers_table(done)) is not None:
            out.print(numbers)
        out.print(pages.verdicts_table(done))
        if not quiet:
            print_line(f"saved in {done.folder}")
    if not (quiet or as_json):
        print_line("next: driftless list papers shows all experiments and their verdicts")


@app.command("new")
def new_command(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet, or is empty.")],
) -> None:
    """Write a small project of your own: data, model, loss, metric, algorithm, settings. It runs as it is."""
    written = write_project(folder)
    print_line(f"wrote {', '.join(path.name for path in written)}")
    print_line(f"next: cd {shlex.quote(str(folder))} && driftless run config.toml; README.md there has more")


@app.command("list")
def list_command(
    what: Annotated[str, typer.Argument(help="algorithms, datasets, models, partitions or papers")],
    as_json: Json = False,
) -> None:
    """Show what there is: algorithms | datasets | models | partitions | papers."""
    if what not in LISTS:
        raise unknown("list", what, LISTS)
    records = LISTS[what].records()
    if as_json:
        print_json(records)
        return
    out.print(LISTS[what].table(records))
    print_line(LISTS[what].next_step)


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
