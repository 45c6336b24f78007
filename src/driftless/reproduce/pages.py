"""The pages about the papers: our numbers beside the published ones, and a verdict for every claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from shutil import copyfile
from typing import Any

from rich.table import Column, Table

from driftless.report.metrics import plural
from driftless.reproduce.conclusions import conclusion
from driftless.reproduce.experiment import KINDS, VERDICTS, Cell, Claim, Experiment, Kind, Paper, Place, Scale
from driftless.reproduce.runner import FIGURE, Reproduced, check_publishable, record
from driftless.reproduce.verdicts import (
    RESULTS,
    ExperimentVerdicts,
    Verdicts,
    stored_result,
    summarise,
    write_stored_result,
)
from driftless.runs.files import write_atomically

COLORS = {"supported": "green", "refuted": "red", "undecided": "yellow", "not tested": "dim"}
TITLES: dict[Kind, str] = {
    "identity": "Identities, bounds and proofs",
    "count": "Exact counts",
    "experiment": "Experiments",
}
NOT_RUN = "not tested yet"
"""It can be run here, and has not been."""
IN_BRACKETS = "the paper's number in brackets"
MOST_AGAINST = 4
"""Comparisons against a claim that its page names."""
LONG = 200
"""Characters; what is longer is said once on a page."""

HOW_JUDGED = (
    "Every rule was committed before the runs that are shown. *Paper* is the claim's comparison with the paper's "
    "numbers, or what it says where it prints none, *ours* the comparison with our numbers: the mean over seeds of a "
    "paired difference and its interval, in brackets what the rule asks for. *Supported* and *refuted* are said only "
    "where the interval leaves no doubt ([how](../reproduce.md)); otherwise a claim is *undecided*, with the number of "
    "seeds that would decide it if they were like those seen."
)

HOW_OURS_ARE_JUDGED = HOW_JUDGED.replace(
    "*Paper* is the claim's comparison with the paper's numbers, or what it says where it prints none, *ours* the "
    "comparison with our numbers: the mean",
    "*Ours* is the mean",
)

Record = Mapping[str, Any]


def publish(done: Reproduced, docs: Path) -> None:
    """Write the result, the figure and the paper's page into a folder of pages."""
    check_publishable(done)
    write_stored_result(record(done), docs)
    if (done.folder / FIGURE).exists():
        (docs / "figures").mkdir(parents=True, exist_ok=True)
        copyfile(done.folder / FIGURE, docs / "figures" / f"{done.paper.name}-{done.experiment.name}.png")
    write_page(done.paper, docs)


def write_page(paper: Paper, docs: Path) -> None:
    docs.mkdir(parents=True, exist_ok=True)
    write_atomically(docs / f"{paper.name}.md", page(paper, docs).encode())


def page(paper: Paper, docs: Path) -> str:
    verdicts = summarise([paper], docs)
    lines = [f"# {paper.title}", "", paper.citation, ""]
    lines += [f"- **{TITLES[kind]}**: {text}" for kind in KINDS if (text := tally_text(paper, verdicts, kind))]
    lines += ["", HOW_OURS_ARE_JUDGED if paper.ours else HOW_JUDGED, ""]
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
    scale = stored["scale"] if stored else "small"
    setup = experiment.setup(scale)
    lines += ["```sh", f"driftless reproduce {paper.name}/{experiment.name} --scale {scale}", "```", ""]
    if text := reduced_text(paper, experiment, scale):
        lines += [f"**Reduced:** {text}", ""]
    if stored:
        lines += [made_from(stored, paper, experiment), ""]
    if text := conclusion(paper.name, experiment.name):
        lines += [f"**What we believe now:** {text}", ""]
    lines += claims_lines(experiment, stored)
    if stored and stored["cells"] and experiment.measure:
        papers = f", {IN_BRACKETS}" if has_printed_numbers(stored) else ""
        lines += [f"{experiment.measure.title.capitalize()}: mean and standard deviation over the seeds{papers}.", "",
                  *markdown(number_table(experiment, stored)), ""]  # fmt: skip
        if setup and (text := edges_text(setup.cells, stored["cells"])):
            lines += [text, ""]
    figure = Path("figures") / f"{paper.name}-{experiment.name}.png"
    if (docs / figure).exists():
        seeds = f": means over {plural(stored['seeds'], 'seed')}" if stored and stored["runs"] else ""
        lines += [f"![{experiment.title}{seeds}]({figure})", ""]
    return lines


def reduced_text(paper: Paper, experiment: Experiment, scale: Scale) -> str:
    """What differs from the paper; what an experiment above has in common is said there."""
    text = reduced(experiment, scale)
    for one in takewhile(lambda one: one is not experiment, paper.experiments):
        common = reduced(one, scale)
        if len(common) > LONG and common in text:
            own = text.replace(common, "").strip()
            return f"As in [{one.where.split(',')[0]}](#{anchor(heading(one))})." + (f" {own}" if own else "")
    return text


def reduced(experiment: Experiment, scale: Scale) -> str:
    setup = experiment.setup(scale)
    return setup.reduced if setup else ""


def made_from(stored: Record, paper: Paper, experiment: Experiment) -> str:
    commits = ", ".join(f"`{one[:10]}`" for one in stored["run_commits"] or [str(stored["commit"])])
    text = f"{stored['date']}, commit {commits}"
    if stored["runs"]:
        text += f": {plural(stored['runs'], 'run')}, {plural(stored['seeds'], 'seed')}, "
        text += f"{duration(stored['seconds'])} of one core"
    text += f". [Raw rows]({RESULTS}/{paper.name}/{experiment.name}.json): every comparison, seed by seed."
    if stored["changed_rules"]:
        text += f" Rules changed after the first runs: {', '.join(stored['changed_rules'])}."
    return text


def claims_lines(experiment: Experiment, stored: Record | None) -> list[str]:
    """One line for each claim, and the rules below."""
    found = by_claim(stored)
    columns = ["claim", *([] if experiment.ours else ["paper"]), "ours", "verdict", "strength"]
    rows = [["", *columns]]
    for place, claim in enumerate(experiment.claims, start=1):
        one = found.get(claim.name)
        row = [one["ours"], verdict_text(one), strength_text(one)] if one else ["", NOT_RUN, ""]
        row = row if experiment.ours else [paper_text(claim, one), *row]
        rows.append([str(place), claim.text, *row])
    lines = [*markdown(rows), ""]
    for place, claim in enumerate(experiment.claims, start=1):
        one = found.get(claim.name)
        lines.append(f"{place}. Rule: {claim.rule}{seen_text(one)}")
    return [*lines, ""]


def by_claim(stored: Record | None) -> dict[str, Record]:
    """What was published of each claim, by its name."""
    return {one["name"]: one for one in stored["claims"]} if stored else {}


def paper_text(claim: Claim, one: Record | None) -> str:
    """What the paper says, or the comparison with the numbers that it prints."""
    return claim.paper or (one["paper"] if one else "")


def verdict_text(one: Record) -> str:
    verdict = f"**{one['verdict']}**"
    if one["verdict"] == "undecided":
        more = one["more_seeds"]
        verdict += f" (about {plural(more, 'more seed')} needed)" if more else " (more seeds needed than can be run)"
    return verdict


def strength_text(one: Record) -> str:
    """What was not tested has none."""
    return "" if one["verdict"] == "not tested" else one["strength"]


def seen_text(one: Record | None) -> str:
    if one is None:
        return ""
    if one["reason"]:
        return f" *{one['reason'].rstrip('.').capitalize()}.*"
    counts = Counter(check["finding"] for check in one["checks"])
    if len(one["checks"]) < 2:
        return ""
    parts = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
    against = [check["text"] for check in one["checks"] if check["finding"] == "refuted"]
    more = f" and {len(against) - MOST_AGAINST} more" if len(against) > MOST_AGAINST else ""
    named = f" Against it: {'; '.join(against[:MOST_AGAINST])}{more}." if against else ""
    return f" Of {len(one['checks'])} comparisons one by one: {parts}.{named}"


def has_printed_numbers(stored: Record) -> bool:
    return any(cell["published"] for cell in stored["cells"])


def number_table(experiment: Experiment, stored: Record) -> list[list[str]]:
    """Rows are settings, columns the values of `experiment.columns`: ours, and the paper's in brackets."""
    column = experiment.columns
    heads = list(dict.fromkeys(str(cell["at"].get(column, "")) for cell in stored["cells"]))
    if all(map(is_number, heads)):
        heads.sort(key=float)
    rest = list(dict.fromkeys(name for cell in stored["cells"] for name in cell["at"] if name != column))
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in stored["cells"]:
        key = tuple(shown(cell["at"].get(name, "")) for name in rest)
        rows.setdefault(key, {})[str(cell["at"].get(column, ""))] = cell_text(experiment, cell)
    titles = [head if not is_number(head) else f"{column} {head}" for head in heads]
    return [[*rest, *titles], *([*key, *(row.get(head, "") for head in heads)] for key, row in rows.items())]


def edges_text(cells: Sequence[Cell], stored: Sequence[Record]) -> str:
    """Where a search chose the lowest or the highest of its values, a better one may lie outside."""
    grids = {tuple(cell.at.items()): cell.grid for cell in cells}
    varying = [name for name in stored[0]["at"] if len({str(one["at"].get(name)) for one in stored}) > 1]
    searched = 0
    found: dict[str, list[str]] = {}
    for one in stored:
        at = one["at"]
        for key, value in one["chosen"].items():
            tried = grids[tuple(at.items())][key]
            if len(tried) < 3:
                continue
            searched += 1
            if value in (min(tried), max(tried)):
                what = f"`{key}` = {value:g} of {', '.join(map(shown, tried))}"
                names = (at[name] if isinstance(at[name], str) else f"{name} {at[name]:g}" for name in varying)
                found.setdefault(what, []).append(" ".join(names))
    if not found:
        return ""
    number = sum(map(len, found.values()))
    named = "; ".join(f"{what} ({', '.join(places)})" for what, places in found.items())
    return f"At an end of its grid, beyond which a better value may lie, are {number} of {searched} chosen: {named}."


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
    head, *body = (f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |" for row in rows)
    return [head, f"|{'---|' * len(rows[0])}", *body]


def heading(experiment: Experiment) -> str:
    return f"{experiment.where.split(',')[0]}: {experiment.title}"


def anchor(text: str) -> str:
    """As GitHub makes it."""
    kept = "".join(c for c in text.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def summary_text(papers: Iterable[Paper], verdicts: Verdicts) -> str:
    """All papers in three sentences; README quotes it."""
    papers = list(papers)
    counts = {kind: sum((tally(paper, verdicts, kind) for paper in papers), Counter[str]()) for kind in KINDS}
    return " ".join(f"{TITLES[kind]}: {counts[kind].total()} claims, {counts_text(counts[kind])}." for kind in KINDS)


def tally(paper: Paper, verdicts: Verdicts, kind: Kind | None = None) -> Counter[str]:
    """Verdicts of all claims of a paper (and of a kind), published or not."""
    counts: Counter[str] = Counter()
    for one in paper.experiments:
        summary = verdicts.get(paper.name, {}).get(one.name)
        found = summary["claims"] if summary else {}
        for claim in one.claims:
            if kind in (None, claim.kind or one.kind):
                counts[found[claim.name]["verdict"] if claim.name in found else NOT_RUN] += 1
    return counts


def tally_text(paper: Paper, verdicts: Verdicts, kind: Kind | None = None) -> str:
    counts = tally(paper, verdicts, kind)
    return f"{plural(sum(counts.values()), 'claim')}: {counts_text(counts)}." if counts else ""


def counts_text(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in (*VERDICTS, NOT_RUN) if counts[verdict])


def state_text(summary: ExperimentVerdicts | None) -> str:
    """Verdicts at small scale are the rule; another scale is named."""
    if summary is None:
        return NOT_RUN
    scale = "" if summary["scale"] == "small" else f" ({summary['scale']} scale)"
    return counts_text(Counter(claim["verdict"] for claim in summary["claims"].values())) + scale


def papers_table(papers: Iterable[Paper], verdicts: Verdicts) -> Table:
    """`driftless list papers`."""
    name = Column("experiment", no_wrap=True)  # it is typed in commands
    table = Table(name, "what", "data at paper scale", "published verdicts", box=None, padding=(0, 1))
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
        table.add_row(claim.text, claim.rule)
    return table


def numbers_table(done: Reproduced) -> Table | None:
    stored = record(done)
    if not stored["cells"] or done.experiment.measure is None:
        return None
    head, *body = number_table(done.experiment, stored)
    title = done.experiment.measure.title + (f"; {IN_BRACKETS}" if has_printed_numbers(stored) else "")
    table = Table(*head, box=None, padding=(0, 1), title=title, title_justify="left")
    for row in body:
        table.add_row(*(text.replace("[", r"\[") for text in row))
    return table


def verdicts_table(done: Reproduced) -> Table:
    table = Table("verdict", "claim", "ours", "strength", box=None, padding=(0, 1))
    for one in record(done)["claims"]:
        claim = next(claim for claim in done.experiment.claims if claim.name == one["name"])
        more = f", about {one['more_seeds']} more seeds" if one["more_seeds"] else ""
        cells = (claim.text, one["reason"] or one["ours"], strength_text(one))
        verdict = f"[{COLORS[one['verdict']]}]{one['verdict']}[/]{more}"
        table.add_row(verdict, *(text.replace("[", r"\[") for text in cells))
    return table
