"""What the server and a node say to each other besides tensors: a ConfigRecord with exactly these fields.

join      who are you? -> Joined: number of examples, shapes            before the first round
gradient  x -> the client's full-batch gradient at x                    only for algorithms such as Mime
train     the broadcast message -> the upload
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar, get_type_hints

from flwr.app import ConfigRecord, RecordDict

from driftless.deploy.records import short
from driftless.deploy.refusal import Refused

PROTOCOL = 1
"""Raised when a field is added or means something else."""
HEADER, MESSAGE, COHORT_GRADIENT, UPLOAD, GRADIENT = "driftless", "message", "cohort_gradient", "upload", "gradient"
"""The records of a Flower message."""
JOIN, ASK_GRADIENT, TRAIN = "join", "gradient", "train"
TOKEN = re.compile(r"[0-9a-f]{32}")
LARGEST = 10**9
MOST_CLIENTS, MOST_CLASSES = 10**6, 10**6
"""Both sides allocate memory for them."""
LONGEST = 4000
"""Characters of a text."""


class Request(NamedTuple):
    """Of the server."""

    protocol: int
    task: str
    facts: str
    """What both sides must have the same, see facts.py."""
    run: str
    """32 hexadecimal digits that no other run has."""
    round: int
    client: int
    clients: int
    """N."""
    cohort: int
    """M."""
    state_round: int
    """The round in which the server accepted the client's last upload: the state to begin with. 0: none yet."""
    oldest_round: int
    """The server never goes back to before this round, so older states need not be kept."""
    classes: int
    """Of all clients; 0: real numbers."""
    reset_lost_state: bool


class Answer(NamedTuple):
    """Of a node, to a request of a round."""

    protocol: int
    task: str
    run: str
    round: int
    client: int
    examples: int
    steps: int
    loss: float
    accuracy: float
    """NaN where there is none."""
    state_was_lost: bool


class Joined(NamedTuple):
    """Of a node, before the first round."""

    protocol: int
    run: str
    client: int
    """The number that the node asks for (`partition-id` of its configuration); -1: any."""
    examples: int
    inputs: str
    """JSON: dtype and shape of an example, or those of several inputs by their names."""
    targets: str
    classes: int
    """The largest label + 1; 0: real numbers."""


class Refusal(NamedTuple):
    """Of a node that cannot do what it is asked to."""

    protocol: int
    run: str
    refused: str


Fields = TypeVar("Fields", Request, Answer, Joined, Refusal)


def header(fields: Request | Answer | Joined | Refusal) -> ConfigRecord:
    return ConfigRecord(fields._asdict())


def read_header(content: RecordDict, cls: type[Fields], records: Iterable[str] = ()) -> Fields:
    """The fields of a message that was received, which must have these other records and no more."""
    found, wanted = set(content), {HEADER, *records}
    if found != wanted:
        given, expected = (", ".join(map(short, sorted(names)[:5])) or "nothing" for names in (found, wanted))
        raise Refused(f"the message has the records {given} instead of {expected}")
    record: Any = content[HEADER]
    if not isinstance(record, ConfigRecord) or set(record) != set(cls._fields):
        raise Refused(f"the record '{HEADER}' does not have the fields of protocol {PROTOCOL}")
    kinds = get_type_hints(cls)
    for name, value in record.items():
        check_value(name, value, kinds[name])
    values: dict[str, Any] = dict(record)
    fields = cls(**values)
    if fields.protocol != PROTOCOL:
        raise Refused(f"the message is of protocol {fields.protocol}, and this side has {PROTOCOL}")
    if not TOKEN.fullmatch(fields.run):
        raise Refused(f"'{short(fields.run)}' is not the name of a run")
    return fields


def check_value(name: str, value: object, kind: type) -> None:
    if type(value) is not kind:
        raise Refused(f"{name} is of type {type(value).__name__} instead of {kind.__name__}")
    if isinstance(value, str) and len(value) > LONGEST:
        raise Refused(f"{name} has {len(value)} characters; at most {LONGEST} are allowed")
    if isinstance(value, int) and not -1 <= value <= LARGEST:
        raise Refused(f"{name} is {short(value)}, which is not between -1 and {LARGEST}")


def check_request(request: Request) -> None:
    """Do the numbers of a request fit together?"""
    fits = {
        "task": request.task in (ASK_GRADIENT, TRAIN),
        "round": request.round >= 1,
        "clients": 1 <= request.clients <= MOST_CLIENTS,
        "client": 0 <= request.client < request.clients,
        "cohort": 1 <= request.cohort <= request.clients,
        "state_round": 0 <= request.state_round < request.round,
        "oldest_round": 0 <= request.oldest_round < request.round,
        "classes": 0 <= request.classes <= MOST_CLASSES,
    }
    for name, possible in fits.items():
        if not possible:
            raise Refused(f"{name} of the request is {short(getattr(request, name))}, which is not possible here")


def read_json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(f"{what} is not JSON") from None
