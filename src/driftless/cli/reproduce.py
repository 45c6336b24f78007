"""reproduce: a paper's experiments and the verdicts on its claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftless.cli.arguments import Jobs, Json, Quiet
from driftless.cli.experiments import continued
from driftless.console import loading, out, print_json, print_line, rounds_bar
from driftless.engine.ranks import refuse_ranks

if TYPE_CHECKING:
    from driftless.reproduce.experiment import Experiment, Paper, Scale
    from driftless.reproduce.runner import Reproduced

    Wanted = Sequence[tuple[Paper, Experiment]]

REPRODUCED = Path("runs") / "reproduce"
SAME_COMMAND = "the same command"
"""Continues after a stop, with the experiments and the folders that it names."""


def reproduce_command(
    names: Annotated[
        list[str], typer.Argument(metavar="PAPER/EXPERIMENT...", help="Or PAPER, or all; see `driftless list papers`.")
    ],
    scale_name: Annotated[
        str, typer.Option("--scale", help="smoke: it runs; small: reduced to two cores; paper: as published.")
    ] = "small",
    output: Annotated[Path, typer.Option("--output", "-o", help="Where runs are kept and used again.")] = REPRODUCED,
    publish: Annotated[
        Path | None, typer.Option(help="Write the paper's page, figures and results into this folder.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show rules, settings beside the paper's, and time; run nothing.")
    ] = False,
    budget: Annotated[
        str | None, typer.Option(help="Such as 3h: most undecided first, until then; the same command continues.")
    ] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run experiments of a paper and judge its claims: driftless reproduce adabest/figure-1 --scale small"""
    refuse_ranks("reproduce")
    with loading("loading the experiments ...", quiet or as_json):
        from driftless.papers import chosen
        from driftless.reproduce import runner

    scale = runner.as_scale(scale_name)
    wanted = chosen(names)
    silent = quiet or as_json
    if plan:
        show_plans(wanted, scale, output, as_json)
    elif budget:
        run_within(budget, wanted, scale, output, publish, jobs, silent)
        show_left(wanted, scale, output, jobs, as_json)
    else:
        run_all(wanted, scale, output, publish, jobs, quiet, as_json)


def show_plans(wanted: Wanted, scale: Scale, output: Path, as_json: bool) -> None:
    from driftless.reproduce import pages, plan

    found = []
    for paper, experiment in wanted:
        one: dict[str, Any] = {"paper": paper.name, **plan.as_json(experiment, scale, output)}
        found.append(one)
        if not as_json:
            out.print(pages.rules_table(experiment))
            out.print(plan.settings_table(one))
            print_line(plan.summary(one))
    if as_json:
        print_json(found[0] if len(found) == 1 else found)


def run_all(
    wanted: Wanted, scale: Scale, output: Path, publish: Path | None, jobs: int | None, quiet: bool, as_json: bool
) -> None:
    from driftless.reproduce import pages, runner

    silent = quiet or as_json
    for paper, experiment in wanted:
        if not silent:
            out.print(pages.rules_table(experiment))
        setup = experiment.setup(scale)
        runs = runner.first_look(setup, output) if setup else []
        title = f"{paper.name}/{experiment.name}"
        with (
            rounds_bar(title, runner.total_rounds(runs), silent) as bar,
            continued(SAME_COMMAND),
        ):
            done = runner.reproduce(paper, experiment, scale, output, jobs, bar)
        publish_into(publish, done)
        if as_json:
            print_json(runner.record(done))
            continue
        if (numbers := pages.numbers_table(done)) is not None:
            out.print(numbers)
        out.print(pages.verdicts_table(done))
        if not quiet:
            print_line(f"saved in {done.folder}")
    if not silent:
        print_line("next: driftless list papers shows all experiments and their verdicts")


def run_within(
    text: str, wanted: Wanted, scale: Scale, output: Path, publish: Path | None, jobs: int | None, silent: bool
) -> None:
    """Looks at experiments, most undecided first, until the time is over."""
    from driftless.reproduce import budget

    limit = budget.seconds(text)

    def announced(now: budget.Standing) -> Any:
        if not silent:
            claims = f"{now.undecided} of {len(now.experiment.claims)} claims undecided"
            print_line(f"{now.title}: {claims}, playing {now.next_seeds} seeds")
        return lambda done: None

    try:
        with continued(SAME_COMMAND), budget.at_most(limit):
            for done in budget.work_down(wanted, scale, output, jobs, announced):
                publish_into(publish, done)
    except budget.Spent:
        if not silent:
            print_line(f"the budget of {text} is spent; the same command continues")


def show_left(wanted: Wanted, scale: Scale, output: Path, jobs: int | None, as_json: bool) -> None:
    from driftless.reproduce import budget

    left = budget.open_experiments(wanted, scale, output, jobs)
    if as_json:
        print_json([{"experiment": one.title, "undecided": one.undecided, "seeds": one.next_seeds - 1} for one in left])
        return
    if not left:
        print_line("nothing is left: every claim is decided, or all seeds are played")
    for one in left:
        print_line(f"left: {one.title}, {one.undecided} of {len(one.experiment.claims)} claims undecided")


def publish_into(docs: Path | None, done: Reproduced) -> None:
    if docs is None:
        return
    from driftless.papers import GUIDE, GUIDE_VERDICTS_FILE, PAPERS, VERDICTS_FILE
    from driftless.reproduce import index_page, pages, verdicts

    pages.publish(done, docs)
    index_page.write_index(PAPERS.values(), docs)
    verdicts.refresh_summary(PAPERS.values(), docs, VERDICTS_FILE)
    verdicts.refresh_summary([GUIDE], docs, GUIDE_VERDICTS_FILE)
