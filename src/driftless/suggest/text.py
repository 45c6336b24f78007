"""A suggestion as text for a terminal of 80 columns."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence

from driftless.cost.table import short
from driftless.report.metrics import plural
from driftless.suggest.facts import Facts
from driftless.suggest.suggestion import SITUATION_TEXT, Candidate, Suggestion

WIDTH = 80
INDENT = 3
LABEL = 9
NEXT = (
    "next: tune each, then compare them with the settings that were best, written as NAME=ALGORITHM,lr=0.3,mu=0.1 in "
    "place of the name:"
)
LABELS_TEXT = {
    "alike": "much the same in all clients",
    "some": "they differ, but most clients have several",
    "few": "clients have few of them",
}


def as_text(suggestion: Suggestion) -> str:
    lines = ["What is seen", *seen(suggestion.facts), ""]
    lines += filled(f"So {SITUATION_TEXT[suggestion.situation]}. Candidates, best first:")
    for place, one in enumerate(suggestion.candidates, start=1):
        lines += ["", f"{place}. {one.name}{gain_text(one)}", *candidate_lines(one)]
    for note in suggestion.notes:
        lines += ["", *filled(note)]
    lines += [
        "",
        *filled(NEXT),
        *command_lines(suggestion.next, INDENT),
    ]
    return "\n".join(lines)


def seen(facts: Facts) -> Iterator[str]:
    yield from labelled(
        "clients",
        f"{facts.clients}, {facts.cohort:g} a round ({100 * facts.participation:.3g} %); in {facts.rounds} rounds a "
        f"client takes part {facts.returns:.3g} times",
    )
    yield from labelled(
        "examples",
        f"{facts.smallest} to {facts.largest} a client, median {facts.median:g}; standard deviation {facts.spread:.2f} "
        "of the mean",
    )
    if facts.skew is None:
        yield from labelled("labels", "none: the targets are numbers, so that clients cannot be compared by them")
        return
    yield from labelled(
        "labels",
        f"{facts.classes} classes; {LABELS_TEXT[facts.labels]}. Mean distance of a client's labels from all labels: "
        f"{facts.skew:.2f} (dealt at random it would be {facts.skew_at_random:.2f}; one label each is near 1)",
    )


def gain_text(one: Candidate) -> str:
    if one.gain is None:
        return "  (no advantage measured in such a setting)"
    return f"  ({one.gain:+.1f} points against FedAvg, in our study)" if one.gain else ""


def candidate_lines(one: Candidate) -> Iterator[str]:
    for sentence in one.why:
        yield from labelled("for", str(sentence))
    for sentence in one.against:
        yield from labelled("against", str(sentence))
    up, down, kept = (
        amount(getattr(one.cost.vectors, key), getattr(one.cost.bytes, key)) for key in ("up", "down", "client")
    )
    yield from labelled("cost", f"a client and round: {up} up, {down} down; {kept} kept by a client")
    yield f"{' ' * INDENT}try"
    yield from command_lines(one.command, 2 * INDENT)


def amount(vectors: int, size: int) -> str:
    return f"{plural(vectors, 'vector')} ({short(size)}B)" if size else "nothing"


def labelled(label: str, text: str) -> list[str]:
    first = " " * INDENT + label.ljust(LABEL)
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first),
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def filled(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def command_lines(command: str, indent: int) -> list[str]:
    """Can be copied: lines end with a backslash where they go on."""
    lines: list[list[str]] = [[]]
    for word in map(shlex.quote, shlex.split(command)):
        room = WIDTH - indent - 2 * (len(lines) > 1) - 2
        if lines[-1] and len(" ".join([*lines[-1], word])) > room:
            lines.append([])
        lines[-1].append(word)
    return [*joined(lines, indent)]


def joined(lines: Sequence[Sequence[str]], indent: int) -> Iterator[str]:
    for place, words in enumerate(lines):
        more = " \\" if place < len(lines) - 1 else ""
        yield f"{' ' * (indent + 2 * (place > 0))}{' '.join(words)}{more}"
