"""The docstring of an algorithm's class, in its parts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import NamedTuple

HEADERS = ("Paper", "Equations", "Hyper-parameters", "Vectors", "Deviations")
LINE = re.compile(r"(start|local step|client|server)(?: \(([^()]+)\))?: (.+?) (<-|=) (.+)")


class Equation(NamedTuple):
    """`client (option=2): c_i_new = c_i - c`."""

    where: str
    conditions: tuple[str, ...]
    left: str
    sign: str
    right: str


class Description(NamedTuple):
    sentence: str
    idea: str
    paper: str
    equations: tuple[Equation, ...]
    hyper_parameters: Mapping[str, str]
    deviations: str


def describe(cls: type) -> Description:
    parts = dict(parts_of(cls))
    sentence, _, idea = parts[""].partition("\n\n")
    return Description(
        sentence, idea, joined(parts["Paper"]), tuple(equations_of(cls)), entries(parts.get("Hyper-parameters", "")),
        joined(parts["Deviations"]),
    )  # fmt: skip


def parts_of(cls: type) -> list[tuple[str, str]]:
    """The header and the text of each part, in their order; the header of the text above all others is empty."""
    found = re.split(rf"^({'|'.join(HEADERS)}):", inspect.getdoc(cls) or "", flags=re.MULTILINE)
    return list(zip(["", *found[1::2]], (text.strip("\n ") for text in found[::2]), strict=True))


def joined(text: str) -> str:
    return " ".join(text.split())


def equations_of(cls: type) -> list[Equation]:
    return [parse(line.strip()) for line in dict(parts_of(cls))["Equations"].splitlines()]


def parse(line: str) -> Equation:
    match = LINE.fullmatch(line)
    if not match:
        raise ValueError(f"not an equation: {line}")
    where, conditions, left, sign, right = match.groups()
    return Equation(where, tuple(conditions.split(", ")) if conditions else (), left, sign, right)


def entries(text: str) -> dict[str, str]:
    """`name: text`, where further lines of a text are indented more."""
    found = re.split(r"^ {0,4}(\w+): ", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], map(joined, found[2::2]), strict=True))
