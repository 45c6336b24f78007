"""reproduce: a paper's experiments and the verdicts on its claims."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftless.cli.arguments import Jobs, Json, Quiet
from driftless.cli.experiments import continued
from driftless.console import loading, out, print_json, print_line, rounds_bar
from driftless.engine.ranks import refuse_ranks

REPRODUCED = Path("runs") / "reproduce"


def reproduce_command(
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
    refuse_ranks("reproduce")
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
