"""What a run reports: a record a round, and the table of all rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, overload

import torch
from torch import nn

from driftless.algorithm import Server, Vector
from driftless.engine.metrics import as_number
from driftless.engine.state import State
from driftless.engine.tree import map_leaves
from driftless.errors import InputError, short_repr


class Event(NamedTuple):
    """Something that a user should see: a client left out, a round lost, a decision of the engine.

    Attributes:
        round: The round in which it happened; 0: before the first.
        what: What happened, in a few words.
        clients: The clients to which it happened; may be empty.

    Examples:
        >>> import driftless
        >>> driftless.Event(3, "dropped out of the round", (4, 7)).text()
        'dropped out of the round (clients 4, 7)'
    """

    round: int
    what: str
    clients: tuple[int, ...] = ()

    def text(self, most: int = 20) -> str:
        """What happened, with the first few clients.

        Args:
            most: How many clients are named. Default 20.
        """
        clients = ", ".join(map(str, self.clients[:most])) + (", ..." if len(self.clients) > most else "")
        return self.what + (f" (clients {clients})" if clients else "")


def events_from(given: Iterable[Sequence[Any]]) -> list[Event]:
    """As JSON has them."""
    return [Event(round, what, tuple(clients)) for round, what, clients in given]


def first_events(events: Sequence[Event], most: int = 5) -> list[str]:
    """The first few events, a line each; what happened to clients more often than that has one line for all rounds."""
    kinds: dict[str, list[Event]] = {}
    for event in events:
        kinds.setdefault(event.what, []).append(event)
    often = {what: found for what, found in kinds.items() if len(found) > most and found[0].clients}
    rare = [event for event in events if event.what not in often]
    lines = [f"round {event.round}: {event.text(most=5)}" for event in rare[:most]]
    if len(rare) > most:
        lines.append(f"... and {len(rare) - most} more events")
    return lines + [in_all(what, found) for what, found in often.items()]


def in_all(what: str, events: Sequence[Event]) -> str:
    """ "dropped out of the round: 312 clients in 60 rounds, from round 1 on"."""
    times = sum(len(event.clients) for event in events)
    return f"{what}: {times:,} times in {len(events):,} rounds, first in round {events[0].round}"


class Record(NamedTuple):
    """One round, as `on_round` and callbacks get it.

    Attributes:
        round: The round, from 1.
        x: The cloud vector after the round.
        aggregate: The mean of the round's client models, as far as the server can know it.
        server: The algorithm's server state after the round.
        metrics: The round's row of the history. Numbers that a callback adds are kept in it.
        cohort: The clients that took part.
        events: Clients left out and rounds lost.
        state: Everything that the next round needs.
        module: Call it to make a new module with the parameters after the round: those that are evaluated.
        client_metrics: By metric, the value of each test client, NaN for one without test data; empty in a round
            without evaluation.

    Examples:
        >>> import driftless
        >>> def on_round(record):
        ...     record.metrics["largest_weight"] = record.x.abs().max()
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> result = driftless.simulate("fedavg", federation, "logistic", rounds=2, cohort=3, on_round=on_round)
        >>> len(result.history["largest_weight"])
        2
    """

    round: int
    x: Vector
    aggregate: Vector
    server: Server
    metrics: dict[str, float]
    cohort: tuple[int, ...]
    events: tuple[Event, ...]
    state: State
    module: Callable[[], nn.Module]
    client_metrics: Mapping[str, list[float]] = MappingProxyType({})

    def copy(self) -> Record:
        """With vectors of its own: who gets it may write into them."""
        server, aggregate = map_leaves(torch.clone, self.server), self.aggregate.clone()
        state = replace(self.state, server=server, aggregate=aggregate)
        each = {name: list(values) for name, values in self.client_metrics.items()}
        return self._replace(
            x=server.x, aggregate=aggregate, server=server, metrics=dict(self.metrics), state=state, client_metrics=each
        )


def with_own_values(
    row: dict[str, float], given: Mapping[str, object], ours: Iterable[str], who: str
) -> dict[str, float]:
    """The round's row with the numbers that `who`, a callback, has put into the copy that it was given.

    `ours`: columns of driftless, also those that this round did not measure. What is not finite is left out.
    """
    kept = dict(row)
    for name, value in given.items():
        if name in row and value is row[name]:
            continue
        if name in row or name in ours:
            raise InputError(
                f"{who} has set '{name}' in record.metrics, which is a column of driftless; use another name."
            )
        number = as_number(value)
        if number is None or not isinstance(name, str):
            raise InputError(
                f"{who} has put {name!r}: {short_repr(value)} into record.metrics, which holds numbers by their names; "
                "put one number under each name."
            )
        if math.isfinite(number):
            kept[name] = number
    return kept


class History:
    """A table with a row a round: `history["test_accuracy"]` is a column, `history[-1]` the last row.

    A column leaves out the rounds in which it was not measured. `print(history)` shows the whole table, and iteration
    gives the rows.

    Args:
        rows: The rows so far, each a number by its name. Default: none.

    Examples:
        >>> from driftless import History
        >>> history = History([{"round": 1, "test_loss": 2.0}, {"round": 2}, {"round": 3, "test_loss": 0.5}])
        >>> history["test_loss"], history[-1], len(history)
        ([2.0, 0.5], {'round': 3, 'test_loss': 0.5}, 3)
        >>> print(history)
        round  test_loss
            1          2
            2
            3        0.5
    """

    def __init__(self, rows: Iterable[Mapping[str, float]] = ()) -> None:
        self._rows = [dict(row) for row in rows]

    def append(self, row: Mapping[str, float]) -> None:
        """Add a row.

        Args:
            row: Numbers by their names.
        """
        self._rows.append(dict(row))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, float]]:
        return iter(self._rows)

    @overload
    def __getitem__(self, key: str) -> list[float]: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, float]: ...
    def __getitem__(self, key: str | int) -> list[float] | dict[str, float]:
        if isinstance(key, int):
            return self._rows[key]
        if key not in self.columns:
            raise KeyError(f"no column {key!r}; columns are {', '.join(self.columns)}")
        return [row[key] for row in self._rows if key in row]

    @property
    def columns(self) -> list[str]:
        """The names of all columns, in the order of their first appearance."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    def last(self, name: str) -> float | None:
        """The newest value of a column, None if there is none.

        Args:
            name: The column, such as "test_accuracy".
        """
        return next((row[name] for row in reversed(self._rows) if name in row), None)

    def __str__(self) -> str:
        """The table as text; a metric that a round did not measure is blank."""
        names = self.columns
        cells = [[f"{row[name]:.5g}" if name in row else "" for name in names] for row in self._rows]
        widths = [max(len(c) for c in column) for column in zip(names, *cells, strict=True)] if names else []
        lines = ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in [names, *cells]]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"History({len(self)} rounds; columns {', '.join(self.columns)})"
