"""The command line. Every command ends by saying what to do next; a user's mistake is one line, never a traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from driftless import __version__
from driftless import compare as comparing
from driftless.config import resolution as configuration
from driftless.config.build import simulation_of
from driftless.console import LISTS, ShowProgress, err, events_text, out, rounds_bar, run_table, say
from driftless.errors import InputError, WorkerDied, unknown
from driftless.report.metrics import plural
from driftless.runs import run as running
from driftless.runs import trackers
from driftless.runs.callbacks import Callback
from driftless.runs.directory import StoredRun, find_runs, is_run
from driftless.tune import search as searching

app = typer.Typer(
    name="driftless",
    help="Federated optimisation: compare some thirty algorithms, exactly reproducibly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Words = Annotated[list[str] | None, typer.Argument(metavar="[CONFIG.toml] [KEY=VALUE]...", show_default=False)]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[ALGORITHM]... [CONFIG.toml] [KEY=VALUE]...", show_default=False)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no closing words.")]
Track = Annotated[
    list[str] | None, typer.Option("--track", help="Follow the run in tensorboard or mlflow.", show_default=False)
]
Callbacks = Annotated[
    list[str] | None,
    typer.Option("--callback", metavar="FILE.py:CLASS", help="Your own Callback.", show_default=False),
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Runs at the same time. Default: the number of cores.")]
REPRODUCED = Path("runs") / "reproduce"
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]


def main() -> None:
    """Entry point: turns the errors that users can make into one message and an exit code."""
    try:
        app()
    except InputError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(2)
    except WorkerDied as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(4)
    except running.Interrupted as interrupt:
        err.print(escape(str(interrupt)), soft_wrap=True, highlight=False)
        sys.exit(130)
    except KeyboardInterrupt:
        err.print("stopped.")
        sys.exit(130)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"driftless {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass


@app.command()
def run(
    words: Words = None,
    print_config: Annotated[bool, typer.Option("--print-config", help="Show every setting and its source.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Run again; keeps the old run under another name.")] = False,
    track: Track = None,
    callback: Callbacks = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run one experiment: driftless run algorithm=adabest data=digits rounds=60 cohort=10 seed=3"""
    algorithms, file, overrides = sort_words(words or [])
    refuse_names(algorithms)
    refuse_tables(file, "compare", "tune")
    listeners = listeners_of(track, callback)
    resolved = configuration.resolve(file, overrides)
    if print_config:
        say(configuration.to_toml(resolved))
        return
    config = resolved.config
    directory = Path(config.run.output) if config.run.output else running.default_directory(config)
    if again:
        simulation_of(config)  # a mistake leaves the old run where it is
        if (old := running.set_aside(directory)) and not as_json:
            say(f"the old run is now {old}")
    with rounds_bar(config.algorithm.name, config.run.rounds, quiet or as_json) as bar:
        stored = running.start(resolved, directory, [ShowProgress(bar), *listeners])
    conclude(stored, quiet, as_json)


@app.command()
def resume(
    directory: Annotated[Path, typer.Argument(help="A run, a comparison or a search that was interrupted.")],
    jobs: Jobs = None,
    workers: Annotated[int | None, typer.Option(help="Processes of a run, if other than before.", min=1)] = None,
    track: Track = None,
    callback: Callbacks = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Continue an interrupted run, comparison or search, to the same bits as if it had never stopped."""
    if searching.is_study(directory):
        finish_search(searching.read_plan(directory), directory, jobs, quiet, as_json)
        return
    if comparing.is_comparison(directory):
        finish_comparison(comparing.read_comparison(directory), directory, jobs, quiet, as_json)
        return
    rounds = StoredRun(directory).config.run.rounds if is_run(directory) else 0

    def tell(problem: str) -> None:
        err.print(f"a checkpoint could not be used, an older one is: {problem}", markup=False, soft_wrap=True)

    with rounds_bar(directory.name, rounds, quiet or as_json) as bar:
        stored, _ = running.resume(directory, [ShowProgress(bar), *listeners_of(track, callback)], tell, workers)
    conclude(stored, quiet, as_json)


def conclude(stored: StoredRun, quiet: bool, as_json: bool) -> None:
    """Show the result of a run; a diverged one ends with exit code 3."""
    result = stored.result or {}
    if as_json:
        print(json.dumps({"directory": str(stored.path), **result}))  # noqa: T201
    elif not quiet:
        out.print(run_table(stored))
        for line in events_text(stored.events):
            say(line)
        if result["status"] == "stopped":
            say(f"stopped: {result['reason']}")
        say(f"saved in {stored.path}; next: {running.command('report', stored.path)}")
    if result["status"] == "diverged":
        err.print(f"[bold red]{escape(result['reason'])}[/]", soft_wrap=True, highlight=False)
        raise typer.Exit(3)


@app.command()
def compare(
    names: Names = None,
    jobs: Jobs = None,
    full: Annotated[bool, typer.Option("--full", help="All columns: costs in examples and time, last rounds.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare algorithms over seeds: driftless compare fedavg scaffold adabest rounds=100 seeds=3 target=0.9"""
    algorithms, file, overrides = sort_words(names or [])
    refuse_tables(file, "tune")
    comparison = comparing.plan(algorithms, file, overrides)
    title = file.stem if file else next(iter(comparison.runs.values())).config.data.name
    folder = comparison.output or running.free_name(Path("runs") / f"compare-{title}")
    finish_comparison(comparison, folder, jobs, quiet, as_json, full)


def finish_comparison(
    comparison: comparing.Comparison, folder: Path, jobs: int | None, quiet: bool, as_json: bool, full: bool = False
) -> None:
    from driftless.report import summary, tables  # plotting libraries are slow to import: only where they are needed

    with rounds_bar(f"{len(comparison.runs)} runs", comparison.rounds, quiet or as_json) as bar, resumable(folder):
        runs = comparing.execute(comparison, folder, bar, jobs)
    summed = summary.summarise(runs, comparison.target)
    if as_json:
        print(json.dumps({"directory": str(folder), "algorithms": [tables.record(row, summed) for row in summed.rows]}))  # noqa: T201
        return
    out.print(tables.rich_table(summed, full))
    if not quiet:
        say(f"saved in {folder}; next: {running.command('report', folder)}")


@app.command()
def tune(words: Words = None, jobs: Jobs = None, quiet: Quiet = False, as_json: Json = False) -> None:
    """Search hyper-parameters on held-out clients: driftless tune algorithm=adabest trials=20 space.beta=[0.5,0.8]"""
    algorithms, file, overrides = sort_words(words or [])
    refuse_names(algorithms)
    plan = searching.plan(file, overrides)
    finish_search(plan, plan.folder, jobs, quiet, as_json)


def finish_search(plan: searching.Plan, folder: Path, jobs: int | None, quiet: bool, as_json: bool) -> None:
    from driftless.report.search_plot import write_search_plot

    if not (quiet or as_json):
        for note in plan.notes:
            say(note)
    with rounds_bar(f"{plan.trials} trials", plan.rounds, quiet or as_json) as bar, resumable(folder):
        outcome = searching.execute(plan, folder, bar, jobs)
    if outcome.best is None:
        raise InputError(
            f"no trial in '{folder}' ended well; try a space with smaller learning rates (space.local.lr)."
        )
    write_search_plot(outcome)
    if as_json:
        print(json.dumps(searching.as_json(outcome)))  # noqa: T201
        return
    out.print(searching.rich_table(outcome))
    if not quiet:
        say(f"saved in {folder}, with search.png; next: {running.command('run', folder / 'best.toml')}")


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or folders that hold some.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page. Default: report.html there.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Write PDF, SVG and PNG figures into this folder.")] = None,
    target: Annotated[float | None, typer.Option(help="Accuracy that costs are counted to.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing page or figures.")] = False,
) -> None:
    """One self-contained page about runs: curves, tables, the partition, what happened."""
    from driftless.report import figures as drawing
    from driftless.report import html

    found = find_runs(runs)
    if figures:
        written = drawing.write_figures(found, figures, overwrite=overwrite)
        say(f"{len(written)} figures in {figures}")
        return
    file = output or runs[0] / "report.html"
    html.write_report(found, file, target=target, overwrite=overwrite)
    say(f"wrote {file} ({plural(len(found), 'run')}); next: open it in a browser, or add --figures DIR for a paper")


@app.command()
def cost(
    algorithms: Annotated[list[str] | None, typer.Argument(help="Names; default: all.", show_default=False)] = None,
    model: Annotated[str, typer.Option(help="A name of `driftless list models`.")] = "mlp",
    data: Annotated[str, typer.Option(help="The data set whose inputs the model takes.")] = "digits",
    steps: Annotated[int, typer.Option(help="Local steps K.")] = 10,
    batch_size: Annotated[int, typer.Option(help="Examples per step.")] = 32,
    examples: Annotated[int | None, typer.Option(help="Examples per client. Default: steps x batch size.")] = None,
    as_json: Json = False,
) -> None:
    """Vectors, bytes and FLOPs per client and round, derived from each algorithm's own code."""
    from driftless import cost as costing
    from driftless.papers import cost_tables

    costs = costing.cost_table(
        algorithms or (), model=model, data=data, steps=steps, batch_size=batch_size, examples=examples
    )
    if as_json:
        print(json.dumps(costing.as_rows(costs)))  # noqa: T201
        return
    out.print(costing.rich_table(costs))
    cells = cost_tables.comparison(algorithms or ())
    if not algorithms:
        out.print(cost_tables.rich_summary(cells))
        cells = [cell for cell in cells if not cell.agrees]
    if cells:
        out.print(cost_tables.rich_comparison(cells))
    say("next: driftless cost fedavg scaffold --model cnn --steps 55, or docs/cost.md for what is counted")


@app.command()
def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="PAPER[/EXPERIMENT]...", help="See `driftless list papers`.")],
    scale_name: Annotated[
        str, typer.Option("--scale", help="smoke: it runs; small: minutes; paper: as published.")
    ] = "small",
    output: Annotated[Path, typer.Option("--output", "-o", help="Where runs are kept and used again.")] = REPRODUCED,
    publish: Annotated[Path | None, typer.Option(help="Write the paper's page and figures into this folder.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show rules, runs and data; run nothing.")] = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run experiments of a paper and judge its claims: driftless reproduce adabest/figure-1 --scale small"""
    from driftless.papers import PAPERS, chosen
    from driftless.reproduce import pages as document
    from driftless.reproduce import runner as reproducing

    scale = reproducing.as_scale(scale_name)
    wanted = chosen(names)
    for paper, experiment in wanted:
        if not (quiet or as_json):
            out.print(document.rules_table(experiment))
        setup = experiment.setup(scale)
        planned = reproducing.plan(setup, output) if setup else []
        if plan:
            say(document.plan_text(experiment, scale, planned))
            continue
        title, total = f"{paper.name}/{experiment.name}", reproducing.total_rounds(planned)
        with (
            rounds_bar(title, total, quiet or as_json) as bar,
            continued(f"driftless reproduce {title} --scale {scale}"),
        ):
            done = reproducing.reproduce(paper, experiment, scale, output, jobs, bar)
        if publish:
            document.publish(done, publish)
            document.write_index(PAPERS.values(), publish)
        if as_json:
            print(json.dumps(reproducing.record(done)))  # noqa: T201
            continue
        if (numbers := document.numbers_rich(done)) is not None:
            out.print(numbers)
        out.print(document.verdicts_rich(done))
        if not quiet:
            say(f"saved in {done.folder}")
    if not (quiet or as_json):
        say("next: driftless list papers shows all experiments and their verdicts")


@app.command("list")
def list_(what: Annotated[str, typer.Argument(help="algorithms, datasets, models, partitions or papers")]) -> None:
    """Show what there is: algorithms | datasets | models | partitions | papers."""
    if what == "papers":
        from driftless.papers import PAPERS
        from driftless.reproduce import pages as document

        out.print(document.papers_table(PAPERS.values()))
        say("run one: driftless reproduce PAPER/EXPERIMENT --scale small")
        return
    if what not in LISTS:
        raise unknown("list", what, [*LISTS, "papers"])
    table, usage = LISTS[what]
    out.print(table())
    say(f"use one: driftless run {usage}")


def resumable(folder: Path) -> AbstractContextManager[None]:
    return continued(running.command("resume", folder))


@contextmanager
def continued(command: str) -> Generator[None]:
    """Ctrl-C ends with the command that continues."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(f"stopped; continue with: {command}", markup=False, soft_wrap=True)
        raise typer.Exit(130) from None


def listeners_of(track: list[str] | None, callback: list[str] | None) -> list[Callback]:
    """The trackers and the user's own callbacks."""
    return [*map(trackers.tracker, track or []), *map(trackers.callback_from_file, callback or [])]


def refuse_names(words: Sequence[str]) -> None:
    if words:
        raise InputError(f"'{words[0]}' is not key=value or a .toml file; did you mean algorithm={words[0]}?")


def refuse_tables(file: Path | None, *commands: str) -> None:
    """A file that describes a comparison or a search is not run as something else."""
    tables = configuration.read_toml(file) if file else {}
    for command in commands:
        if command in tables:
            raise InputError(f"{file} has a table [{command}]; use: driftless {command} {file}")


def sort_words(words: Sequence[str]) -> tuple[list[str], Path | None, list[str]]:
    """Algorithm names, the configuration file, and the key=value settings, in any order."""
    overrides = [word for word in words if "=" in word]
    files = [word for word in words if word.endswith(".toml") and "=" not in word]
    if len(files) > 1:
        raise InputError(f"two configuration files were given, {files[0]} and {files[1]}; give one.")
    algorithms = [word for word in words if word not in overrides and word not in files]
    return algorithms, Path(files[0]) if files else None, overrides
