"""The map of all algorithms: an identity is a line between two of them. A drawing (SVG) whose names are links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import NamedTuple

from driftless import ALGORITHMS
from driftless.algorithms.identities import IDENTITIES, Identity

ROOT = "fedavg"
COLUMN, ROW, WIDTH, HEIGHT, MARGIN = 190, 46, 140, 28, 10


class Place(NamedTuple):
    x: float
    """Of the middle."""
    y: float


INTRODUCTION = (
    "A line is an identity: one algorithm with special hyper-parameters is the other, in every round, to rounding. "
    "A name leads to its page; the table below has the hyper-parameters, the conditions and the tests."
)


def page() -> str:
    columns, alone = components()
    lines = [
        "---",
        "title: Map",
        "hide: [toc]",
        "---",
        "",
        "# How the algorithms relate",
        "",
        INTRODUCTION,
        "",
        drawing(columns),
        "",
    ]
    if alone:
        links = ", ".join(f"[{ALGORITHMS[name].__name__}]({name}.md)" for name in alone)
        lines += [f"No identity connects these with another algorithm: {links}.", ""]
    return "\n".join([*lines, *identity_table(IDENTITIES), ""])


def identity_table(identities: Iterable[Identity]) -> Iterator[str]:
    yield from ("| | is the same as | when | proved by |", "|---|---|---|---|")
    for one in identities:
        sides = zip((one.special, one.equals), one.names, strict=True)
        special, equals = (f"[{text}]({name}.md)" for text, name in sides)
        yield f"| {special} | {equals} | {one.when} | `{one.test.rpartition('::')[2]}` |"


def components() -> tuple[list[list[str]], list[str]]:
    """Columns by the number of identities between an algorithm and FedAvg; and the algorithms without any identity."""
    near: dict[str, set[str]] = {name: set() for name in ALGORITHMS}
    for one in IDENTITIES:
        first, second = one.names
        near[first].add(second)
        near[second].add(first)
    alone = [name for name in ALGORITHMS if not near[name] - {name}]
    left = [name for name in ALGORITHMS if name not in alone]
    columns: list[list[str]] = []
    while left:  # each turn one connected part, from FedAvg or the first name that is left
        layer = [ROOT if ROOT in left else left[0]]
        depth = 0
        while layer:
            if depth == len(columns):
                columns.append([])
            columns[depth] += layer
            left = [name for name in left if name not in layer]
            layer = [name for name in left if near[name] & set(columns[depth])]
            depth += 1
    return columns, alone


def places(columns: list[list[str]]) -> dict[str, Place]:
    """Columns from left to right; within one, near the mean of those it is connected with in the column before."""
    found: dict[str, Place] = {}
    tallest = max(len(column) for column in columns)
    for depth, column in enumerate(columns):
        ordered = sorted(column, key=lambda name: mean_height(name, found))
        top = (tallest - len(column)) / 2
        for place, name in enumerate(ordered):
            found[name] = Place(MARGIN + WIDTH / 2 + depth * COLUMN, MARGIN + HEIGHT / 2 + (top + place) * ROW)
    return found


def mean_height(name: str, found: Mapping[str, Place]) -> float:
    heights = [found[other].y for one in IDENTITIES if name in one.names for other in one.names if other in found]
    return sum(heights) / len(heights) if heights else 0.0


def drawing(columns: list[list[str]]) -> str:
    found = places(columns)
    width = max(place.x for place in found.values()) + WIDTH / 2 + MARGIN
    height = max(place.y for place in found.values()) + HEIGHT / 2 + MARGIN
    parts = [*(edge(one, found) for one in IDENTITIES), *(node(name, place) for name, place in found.items())]
    return svg(parts, width, height)


def svg(parts: Iterable[str], width: float, height: float) -> str:
    return (
        f'<div class="map"><svg viewBox="0 0 {width:g} {height:g}" style="min-width:{width * 0.7:g}px" '
        f'role="img" aria-label="Identities between the algorithms">{"".join(parts)}</svg></div>'
    )


def edge(one: Identity, found: Mapping[str, Place]) -> str:
    a, b = sorted(found[name] for name in one.names)
    if a == b:
        return ""
    out = a.x + WIDTH / 2
    if a.x == b.x:  # in one column: around the names between them
        line = f"M{out:g} {a.y:g}Q{out + 30:g} {(a.y + b.y) / 2:g} {out:g} {b.y:g}"
    else:
        line = f"M{out:g} {a.y:g}L{b.x - WIDTH / 2:g} {b.y:g}"
    when = f", when {one.when}" if one.when else ""
    return f"<path d='{line}'><title>{escape(f'{one.special} = {one.equals}{when}')}</title></path>"


def node(name: str, place: Place) -> str:
    corner = f'x="{place.x - WIDTH / 2:g}" y="{place.y - HEIGHT / 2:g}"'
    return (
        f'<a href="{name}.html"><rect {corner} width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{place.x:g}" y="{place.y + 4:g}">{ALGORITHMS[name].__name__}</text></a>'
    )
