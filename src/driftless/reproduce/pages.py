"""The pages about the papers: our numbers beside the published ones, and a verdict for every claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any

from rich.table import Table

from driftless.report.metrics import plural
from driftless.reproduce.experiment import VERDICTS, Experiment, Paper, Place, Scale
from driftless.reproduce.runner import FIGURE, Planned, Reproduced, record
from driftless.reproduce.verdicts import (
    ExperimentVerdicts,
    Verdicts,
    stored_result,
    summarise,
    write_stored_result,
)
from driftless.runs.files import write_atomically

MOST_CHECKS = 6
COLORS = {"reproduced": "green", "partly": "yellow", "contradicted": "red", "not testable here": "dim"}

HOW_JUDGED = (
    "Every rule below was written before the run that is shown; where a pilot or a first try was seen before it, that "
    "is said. Of a claim's checks, all (or the stated share) must hold for *reproduced*, at least half for *partly*; "
    "otherwise it is *contradicted*."
)

INDEX = (
    "Every experiment of the papers at a scale that two cores finish in minutes, with a verdict for each claim. The "
    "rules were fixed before the runs that are shown; what was reduced stands with each experiment. `driftless list "
    "papers` shows the same list, [reproduce](../reproduce.md) says how it works and how to run an experiment as "
    "published."
)

Record = Mapping[str, Any]


def publish(done: Reproduced, docs: Path) -> None:
    """Write the result, the figure and the paper's page into a folder of pages."""
    write_stored_result(record(done), docs)
    if (done.folder / FIGURE).exists():
        (docs / "figures").mkdir(parents=True, exist_ok=True)
        copyfile(done.folder / FIGURE, docs / "figures" / f"{done.paper.name}-{done.experiment.name}.png")
    write_page(done.paper, docs)


def write_index(papers: Iterable[Paper], docs: Path) -> None:
    """The page above the papers' pages: how many claims of how many."""
    lines = ["# The papers, checked", "", INDEX, ""]
    lines += [f"| paper | claims | {' | '.join(VERDICTS)} | not run yet |", f"|{'---|' * (len(VERDICTS) + 3)}"]
    for paper in papers:
        counts = tally(paper, summarise([paper], docs))
        numbers = [str(counts[name]) for name in (*VERDICTS, "not run yet")]
        lines.append(f"| [{paper.title}]({paper.name}.md) | {sum(counts.values())} | {' | '.join(numbers)} |")
    write_atomically(docs / "README.md", ("\n".join(lines) + "\n").encode())


def write_page(paper: Paper, docs: Path) -> None:
    docs.mkdir(parents=True, exist_ok=True)
    write_atomically(docs / f"{paper.name}.md", page(paper, docs).encode())


def page(paper: Paper, docs: Path) -> str:
    verdicts = summarise([paper], docs)
    lines = [f"# {paper.title}", "", paper.citation, ""]
    lines += [f"**{tally_text(paper, verdicts)}**", ""]
    lines += [HOW_JUDGED, ""]
    lines += [f"- {note}" for note in paper.notes] + [""] * bool(paper.notes)
    lines += ["| experiment | place | state |", "|---|---|---|"]
    for one in paper.experiments:
        state = state_text(verdicts.get(paper.name, {}).get(one.name))
        lines.append(f"| [{one.title}](#{anchor(heading(one))}) | {one.where} | {state} |")
    for one in paper.experiments:
        lines += ["", *section(paper, one, stored_result(paper, one, docs), docs)]
    return "\n".join(lines) + "\n"


def section(paper: Paper, experiment: Experiment, stored: Record | None, docs: Path) -> list[str]:
    lines = [f"## {heading(experiment)}", "", f"*{experiment.where}.* {experiment.about}", ""]
    setup = experiment.small
    lines += ["```sh", f"driftless reproduce {paper.name}/{experiment.name} --scale small", "```", ""]
    if stored and stored["runs"]:
        runs, seeds = plural(stored["runs"], "run"), plural(stored["seeds"], "seed")
        lines += [f"{date_and_commit(stored)}: {runs}, {seeds}, {duration(stored['seconds'])} of one core.", ""]
    elif stored:
        lines += [f"{date_and_commit(stored)}.", ""]
    if setup and setup.reduced:
        lines += [f"**Reduced:** {setup.reduced}", ""]
    if stored and stored["cells"] and experiment.measure:
        lines += [experiment.measure.title.capitalize() + ":", ""]
        lines += [*markdown(number_table(experiment, stored)), ""]
    figure = Path("figures") / f"{paper.name}-{experiment.name}.png"
    if (docs / figure).exists():
        lines += [f"![{experiment.title}]({figure})", ""]
    lines += claims_text(experiment, stored)
    return lines


def claims_text(experiment: Experiment, stored: Record | None) -> list[str]:
    found = {one["name"]: one for one in stored["claims"]} if stored else {}
    lines: list[str] = []
    for claim in experiment.claims:
        finding = found.get(claim.name)
        verdict = finding["verdict"] if finding else "not run yet"
        lines += [
            f"**{verdict.capitalize()}:** {claim.text}  ",
            f"Rule: {claim.rule}{share_text(claim.required_share)}  ",
        ]
        if finding and finding["reason"]:
            lines += [f"Reason: {finding['reason']}."]
        if finding and finding["checks"]:
            lines += [f"Seen: {finding['held']} of {len(finding['checks'])} checks hold."]
            lines += [""] + [
                f"- {'✓' if one['holds'] else '✗'} {one['text']}" for one in finding["checks"][:MOST_CHECKS]
            ]
            if (more := len(finding["checks"]) - MOST_CHECKS) > 0:
                lines.append(f"- and {more} more")
        lines.append("")
    return lines


def share_text(required: float) -> str:
    return "" if required == 1 else f" ({100 * required:g} % of the checks must hold.)"


def number_table(experiment: Experiment, stored: Record) -> list[list[str]]:
    """Rows are settings, columns the values of `experiment.columns`: ours, and the paper's in brackets."""
    column = experiment.columns
    heads = list(dict.fromkeys(str(cell["at"].get(column, "")) for cell in stored["cells"]))
    rest = list(dict.fromkeys(name for cell in stored["cells"] for name in cell["at"] if name != column))
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in stored["cells"]:
        key = tuple(shown(cell["at"].get(name, "")) for name in rest)
        rows.setdefault(key, {})[str(cell["at"].get(column, ""))] = cell_text(experiment, cell)
    titles = [head if not is_number(head) else f"{column} {head}" for head in heads]
    return [[*rest, *titles], *([*key, *(row.get(head, "") for head in heads)] for key, row in rows.items())]


def cell_text(experiment: Experiment, cell: Record) -> str:
    assert experiment.measure is not None
    digits = experiment.measure.digits
    mean, std = cell["ours"]
    text = "never" if mean is None else f"{mean:.{digits}f}"
    if std is not None:
        text += f" ± {std:.{digits}f}"
    if cell["diverged"]:
        text += f" ({cell['diverged']} diverged)"
    if cell["published"]:
        text += f" [{cell['published'][0]:g}]"
    return text


def shown(value: Place) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("-", "", 1).isdigit()


def markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = rows
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in body)]


def heading(experiment: Experiment) -> str:
    return f"{experiment.where.split(',')[0]}: {experiment.title}"


def anchor(text: str) -> str:
    """As GitHub makes it."""
    kept = "".join(c for c in text.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def date_and_commit(stored: Record) -> str:
    return f"{stored['date']}, commit `{(stored['commit'] or 'unknown')[:10]}`"


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def tally(paper: Paper, verdicts: Verdicts) -> Counter[str]:
    """Verdicts of all claims of a paper, published or not."""
    counts: Counter[str] = Counter()
    for one in paper.experiments:
        summary = verdicts.get(paper.name, {}).get(one.name)
        found = summary["verdicts"] if summary else {}
        counts.update(found.get(claim.name, "not run yet") for claim in one.claims)
    return counts


def tally_text(paper: Paper, verdicts: Verdicts) -> str:
    counts = tally(paper, verdicts)
    return f"{plural(sum(counts.values()), 'claim')}: {counts_text(counts)}."


def counts_text(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in (*VERDICTS, "not run yet") if counts[verdict])


def state_text(summary: ExperimentVerdicts | None) -> str:
    """Verdicts at small scale are the rule; another scale is named."""
    if summary is None:
        return "not run yet"
    scale = "" if summary["scale"] == "small" else f" ({summary['scale']} scale)"
    return counts_text(Counter(summary["verdicts"].values())) + scale


def papers_table(papers: Iterable[Paper], verdicts: Verdicts) -> Table:
    """`driftless list papers`."""
    table = Table(
        "experiment", "what", "data at paper scale", "published verdicts (small scale)", box=None, padding=(0, 1)
    )
    for paper in papers:
        table.add_row(f"[bold]{paper.name}[/]", f"[bold]{paper.title}[/]", "", tally_text(paper, verdicts))
        for one in paper.experiments:
            state = state_text(verdicts.get(paper.name, {}).get(one.name))
            data = ", ".join(one.paper.data) if one.paper.cells else "none (computed)"
            table.add_row(f"  {paper.name}/{one.name}", one.title, data, state)
    return table


def rules_table(experiment: Experiment) -> Table:
    """What will be judged, shown before the run."""
    table = Table("claim", "rule", box=None, padding=(0, 1), title=experiment.title, title_justify="left")
    for claim in experiment.claims:
        table.add_row(claim.text, claim.rule + share_text(claim.required_share))
    return table


def numbers_table(done: Reproduced) -> Table | None:
    stored = record(done)
    if not stored["cells"] or done.experiment.measure is None:
        return None
    head, *body = number_table(done.experiment, stored)
    title = f"{done.experiment.measure.title}; the paper's number in brackets"
    table = Table(*head, box=None, padding=(0, 1), title=title, title_justify="left")
    for row in body:
        table.add_row(*(text.replace("[", r"\[") for text in row))
    return table


def verdicts_table(done: Reproduced) -> Table:
    table = Table("verdict", "claim", "seen", box=None, padding=(0, 1))
    for finding in done.findings:
        held = sum(check.holds for check in finding.checks)
        seen = finding.reason or f"{held} of {len(finding.checks)}: " + "; ".join(
            check.text for check in finding.checks[:2]
        )
        color = COLORS[finding.verdict]
        table.add_row(f"[{color}]{finding.verdict}[/]", finding.claim.text, seen.replace("[", r"\["))
    return table


def plan_text(experiment: Experiment, scale: Scale, planned: Sequence[Planned]) -> str:
    """What a scale would do."""
    setup = experiment.setup(scale)
    if setup is None:
        return f"not testable here: {experiment.untestable}"
    folders = {one.folder: one.resolved.config for one in planned}
    rounds = sum(config.run.rounds for config in folders.values())
    lines = [f"{scale}: {len(setup.cells)} cells, {len(folders)} runs, {rounds:,} rounds in all"]
    if setup.cells:
        lines.append(f"data: {', '.join(setup.data)}")
    if setup.reduced:
        lines.append(f"reduced: {setup.reduced}")
    return "\n".join(lines)
