"""The page of an algorithm, made from its class, its costs, the published verdicts and the identities."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

from algorithm_map import identity_table
from class_source import methods, used_definitions
from docstrings import Description, Equation, describe
from equations import equation

from driftless import ALGORITHMS, Algorithm
from driftless.algorithms.identities import IDENTITIES
from driftless.cost import measure
from driftless.papers import COLLECTIONS
from driftless.reproduce.experiment import Experiment, Paper
from driftless.reproduce.pages import anchor, heading, state_text
from driftless.suggest import Sentence, advice
from driftless.suggest.advice import published_verdicts

BESIDE = {
    "start": ("init_server", "init_client"),
    "message": ("broadcast",),
    "local step": ("init_local", "direction"),
    "client": ("upload",),
    "server": ("update",),
    "evaluated": ("inference",),
}
"""Part of a round -> the methods that compute it."""


def page(name: str) -> str:
    cls = ALGORITHMS[name]
    text = describe(cls)
    parts = [
        head(name, cls, text),
        equations_and_code(cls, text),
        hyper_parameters(cls, text),
        costs(name, cls),
        helps_and_hurts(name),
        relations(name),
        experiments(name),
        ["## Deviations from the paper", "", text.deviations[0].upper() + text.deviations[1:], ""],
    ]
    return "\n".join(line for part in parts for line in part)


def head(name: str, cls: type[Algorithm], text: Description) -> list[str]:
    file = cls.__module__.replace(".", "/")
    return [
        "---",
        f"title: {cls.__name__}",
        f"description: {json.dumps(text.sentence)}",
        "hide: [toc]",
        "---",
        "",
        f"# {cls.__name__}",
        "",
        f"**{text.sentence}**",
        "",
        text.idea,
        "",
        text.paper,
        "",
        "```",
        f"driftless run algorithm={name}",
        "```",
        "",
        f"In Python `driftless.algorithms.{cls.__name__}()`; source: `src/{file}.py`.",
        "",
    ]


def equations_and_code(cls: type[Algorithm], text: Description) -> Iterator[str]:
    yield from ("## Equations and code", "")
    yield "The [notation](../algorithms.md#notation) is that of all algorithms. A method that is not shown is FedAvg's."
    yield ""
    code = methods(cls)
    lines = {part: [line for line in text.equations if line.where == part] for part in BESIDE}
    for part, names in BESIDE.items():
        shown = [code[one] for one in names if one in code]
        if shown or lines[part]:
            yield from beside(part, lines[part], shown)
    own = {one for names in BESIDE.values() for one in names}
    more = [source for one, source in code.items() if one not in own] + used_definitions(cls)
    if more:
        yield from ('??? quote "What these methods use"', "")
        yield from indented(fence("\n\n\n".join(more)))
        yield ""


def beside(part: str, lines: list[Equation], code: list[str]) -> Iterator[str]:
    yield from ('<div class="beside" markdown>', "<div markdown>", "", f"*{part}*", "")
    for line in lines:
        if line.conditions:
            yield from (", ".join(f"`{condition}`" for condition in line.conditions), "")
        yield from (f"$$ {equation(line.left, line.sign, line.right)} $$", "")
    yield from ("</div>", "<div markdown>", "")
    if code:
        yield from fence("\n\n".join(code))
    yield from ("", "</div>", "</div>", "")


def fence(code: str) -> list[str]:
    return ["```py", *code.splitlines(), "```"]


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]


def hyper_parameters(cls: type[Algorithm], text: Description) -> Iterator[str]:
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    yield from ("## Hyper-parameters", "")
    if not fields:
        yield from ("It has none.", "")
        return
    yield from ("| name | default | meaning, range, how to tune |", "|---|---|---|")
    for field in fields:
        yield f"| `{field.name}` | `{field.default!r}` | {cell(text.hyper_parameters[field.name])} |"
    yield ""
    yield "On the command line `algorithm.NAME=VALUE`; searched by [`driftless tune`](../tune.md)."
    yield ""


def cell(text: str) -> str:
    return text.replace("|", r"\|")


def costs(name: str, cls: type[Algorithm]) -> Iterator[str]:
    yield from ("## Costs", "")
    yield "Per client and round, in vectors of the model's size, derived from the code above; operations per parameter."
    yield ""
    yield from ("| | down | up | kept by a client | by the server | local step | end of round | server step |",
                "|---|---|---|---|---|---|---|---|")  # fmt: skip
    for title, one in dict.fromkeys(((cls.__name__, cls()), ("FedAvg", ALGORITHMS["fedavg"]()))):
        yield cost_row(title, one)
    yield ""
    command = f"driftless cost {name}" if name == "fedavg" else f"driftless cost fedavg {name}"
    yield f"`{command}` counts bytes and FLOPs for a model; [what is counted](../cost.md)."
    yield ""


def cost_row(title: str, algorithm: Algorithm) -> str:
    cost = measure(algorithm, 1_000_000)
    operations = (part.total() / cost.parameters for part in (cost.step, cost.round, cost.server))
    return f"| {title} | {' | '.join(f'{number:.4g}' for number in (*cost.vectors, *operations))} |"


def helps_and_hurts(name: str) -> Iterator[str]:
    known = advice(name)
    for title, found in (("When it helps", known.helps), ("When it hurts", known.hurts)):
        if found:
            yield from (f"## {title}", "")
            yield from (f"- {one.text} ({behind(one)})" for one in found)
            yield ""
    yield from ("[Choosing an algorithm](../choose.md) begins with the symptoms.", "")


def behind(sentence: Sentence) -> str:
    if not sentence.verdict:
        return sentence.evidence
    collection, name, _ = sentence.evidence.split("/")
    experiment = next(one for one in COLLECTIONS[collection].experiments if one.name == name)
    return f"{experiment_link(collection, experiment)}: {sentence.verdict}"


def experiment_link(collection: str, experiment: Experiment) -> str:
    return f"[{collection}/{experiment.name}](../papers/{collection}.md#{anchor(heading(experiment))})"


def relations(name: str) -> Iterator[str]:
    found = [one for one in IDENTITIES if name in one.names]
    yield from ("## How it relates to the others", "")
    yield from identity_table(found) if found else ["No identity connects it with another algorithm of this library."]
    yield from ("", "[The map of all algorithms](map.md).", "")


def experiments(name: str) -> Iterator[str]:
    """With this algorithm among the compared ones."""
    verdicts = published_verdicts()
    rows = [
        f"| {experiment_link(paper.name, one)} | {one.title} | "
        f"{state_text(verdicts.get(paper.name, {}).get(one.name))} |"
        for paper, one in all_experiments()
        if runs(one, name)
    ]
    if rows:
        yield from (
            "## Experiments with it",
            "",
            "Of the [papers](../papers/README.md) and our own studies, with the verdicts on their claims.",
            "",
        )
        yield from ("| experiment | what | verdicts |", "|---|---|---|", *rows, "")


def all_experiments() -> Iterator[tuple[Paper, Experiment]]:
    return ((paper, one) for paper in COLLECTIONS.values() for one in paper.experiments)


def runs(experiment: Experiment, name: str) -> bool:
    setups = [setup for setup in (experiment.paper, experiment.small) if setup]
    return any(cell.settings.get("algorithm.name") == name for setup in setups for cell in setup.cells)
