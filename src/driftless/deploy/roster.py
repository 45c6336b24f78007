"""Who takes part: the nodes that have joined, each with the number of its client, kept with the run."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from driftless.data.client_rows import offsets_of
from driftless.data.federation import Federation
from driftless.data.inputs import Inputs, map_inputs, short_dtype
from driftless.deploy.protocol import MOST_CLASSES, TOKEN, Joined, read_json
from driftless.deploy.records import short
from driftless.deploy.refusal import Refused
from driftless.errors import InputError
from driftless.runs.directory import NODES
from driftless.runs.files import read_json as read_json_file
from driftless.runs.files import write_json

DTYPES = {short_dtype(torch.empty(0, dtype=dtype)): dtype for dtype in (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool,
)}  # fmt: skip
"""Those that a Federation keeps."""
MOST_EXAMPLES = 10**8
MOST_DIMENSIONS = 16
MOST_VALUES = 2**26
"""Of an example."""


class Member(NamedTuple):
    node: int
    """Its id in Flower, which with node authentication belongs to its key."""
    examples: int


class Roster(NamedTuple):
    """The clients of a run, by their numbers."""

    run: str
    """32 hexadecimal digits: answers and states of another run are refused."""
    members: list[Member]
    inputs: Any
    targets: Any
    classes: int

    @property
    def nodes(self) -> list[int]:
        return [member.node for member in self.members]


def new_run() -> str:
    return secrets.token_hex(16)


def read_roster(directory: Path) -> Roster | None:
    if not (directory / NODES).exists():
        return None
    found = read_json_file(directory / NODES)
    try:
        members = [Member(int(node), int(examples)) for node, examples in found.pop("members")]
        roster = Roster(members=members, **found)
        check_roster(roster)
        return roster
    except (KeyError, TypeError, ValueError, OverflowError, Refused):
        raise InputError(f"'{directory / NODES}' is damaged; put it back, or choose another output.") from None


def write_roster(directory: Path, roster: Roster) -> None:
    members = [[str(member.node), member.examples] for member in roster.members]
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / NODES, roster._asdict() | {"members": members})


def check_roster(roster: Roster) -> None:
    """Of a file."""
    if type(roster.run) is not str or not TOKEN.fullmatch(roster.run):
        raise Refused("it has no name of a run")
    if not 1 <= len(set(roster.nodes)) == len(roster.members):
        raise Refused("its nodes are not different ones")
    check_kinds(roster.inputs, roster.targets, roster.classes)
    for member in roster.members:
        check_examples(member.examples)


def check_joined(joined: Joined, clients: int) -> None:
    """Are a node's words about its data possible at all?"""
    check_examples(joined.examples)
    if not -1 <= joined.client < clients:
        raise Refused(f"it asks for the number {joined.client}, and the clients are 0..{clients - 1}")
    inputs, targets = (read_json(text, "the description of its data") for text in (joined.inputs, joined.targets))
    check_kinds(inputs, targets, joined.classes)


def check_examples(number: int) -> None:
    if not 1 <= number <= MOST_EXAMPLES:
        raise Refused(f"it has {number} examples; allowed are 1 to {MOST_EXAMPLES}")


def check_kinds(inputs: Any, targets: Any, classes: object) -> None:
    """Of the data."""
    example_of(inputs)
    labels = not zeros(targets).is_floating_point()
    most = MOST_CLASSES if labels else 0
    if type(classes) is not int or not labels <= classes <= most:
        raise Refused(f"it has {short(classes)} classes; with targets of this type {int(labels)} to {most} are allowed")


def roster_of(answers: Mapping[int, Joined], clients: int, run: str) -> tuple[Roster | None, dict[int, str]]:
    """The roster, when enough nodes have joined; and why others cannot take part, by node.

    All must have data of the kind that most of them have. A node has the number that it asks for; those that ask for
    none get the free numbers in the order of their ids.
    """
    refused: dict[int, str] = {}
    if not answers:
        return None, refused
    (kind, _), *_ = Counter((joined.inputs, joined.targets) for joined in answers.values()).most_common()
    taken: dict[int, int] = {}
    for node, joined in sorted(answers.items(), key=lambda item: (item[1].client < 0, item[0])):
        number = next((i for i in range(clients) if i not in taken), clients) if joined.client < 0 else joined.client
        if (joined.inputs, joined.targets) != kind:
            given, others = (f"{short(inputs)} -> {short(targets)}" for inputs, targets in ((joined[4:6]), kind))
            refused[node] = f"its data are {given}, those of most nodes {others}"
        elif number in taken:
            refused[node] = f"it asks for the number {number}, which node {taken[number]} has"
        elif number == clients:
            refused[node] = f"the run has its {clients} clients already"
        else:
            taken[number] = node
    if len(taken) < clients:
        return None, refused
    members = [Member(taken[number], answers[taken[number]].examples) for number in range(clients)]
    classes = max(answers[node].classes for node in taken.values())
    return Roster(run, members, json.loads(kind[0]), json.loads(kind[1]), classes), refused


def example_of(kind: Any) -> Inputs:
    """One example of zeros, of the dtype and shape that a node has named."""
    if not isinstance(kind, dict):
        return zeros(kind)
    form, parts = next(iter(kind.items()), ("", None))
    if len(kind) != 1 or form not in ("tuple", "dict") or not (isinstance(parts, list) and parts):
        raise Refused("the description of its inputs is neither a tuple nor a dict of tensors")
    tensors: dict[str, Tensor] = {}
    for part in parts:
        name = part[0] if isinstance(part, list) and part else None
        if not isinstance(name, str) or not name.isprintable() or name in tensors:
            raise Refused(f"{short(part)} is not the name, dtype and shape of an input")
        tensors[name] = zeros(part[1:])
    return tuple(tensors.values()) if form == "tuple" else tensors


def zeros(kind: Any) -> Tensor:
    fits = isinstance(kind, list) and len(kind) == 2 and isinstance(kind[0], str) and isinstance(kind[1], list)
    name, shape = kind if fits else ("", [])
    whole = all(type(size) is int and 0 <= size <= MOST_VALUES for size in shape)
    if name not in DTYPES or not whole or len(shape) > MOST_DIMENSIONS:
        raise Refused(f"{short(kind)} is not the dtype and shape of a tensor")
    if np.prod([1.0, *shape]) > MOST_VALUES:
        raise Refused(f"an example of the shape {short(shape)} is too large")
    return torch.zeros((), dtype=DTYPES[name]).expand(1, *shape)  # takes no memory


def federation_of(roster: Roster, test: Any) -> Federation:
    """The clients as the server knows them: how many examples each has. Their values are zeros that take no memory."""
    offsets = offsets_of(np.array([member.examples for member in roster.members]))

    def rows(example: Tensor) -> Tensor:
        return example.expand(int(offsets[-1]), *example.shape[1:])

    inputs, targets = map_inputs(rows, example_of(roster.inputs)), map_inputs(rows, example_of(roster.targets))
    assert isinstance(targets, Tensor)
    if test is None:
        return Federation(inputs, targets, offsets, classes=roster.classes or None, name="nodes")
    checked = Federation.from_clients([test], test=test)
    classes = max(roster.classes, checked.classes or 0) or None
    return Federation(inputs, targets, offsets, checked.test, classes=classes, name="nodes")
