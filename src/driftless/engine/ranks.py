"""Ranks that torchrun or srun has started, for the time of one command or one call: they do the same, or end together.

Every rank builds the run from what it was given. Rank 0 compares that, plays the run, writes its files and calls the
user's functions; the others compute their share of each round. An error on any rank ends all of them.
"""

from __future__ import annotations

import json
import socket
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from driftless.engine import launcher, watch
from driftless.engine.group import TIMEOUT, Disconnected, Group
from driftless.engine.history import History, events_from
from driftless.errors import Diverged, InputError, WorkerDied

LONGEST_CAUSE = 8000
"""Characters of an error and of its traceback that are told to another rank."""


class Ranks:
    """This process among all ranks; alone, it is rank 0 of 1."""

    def __init__(self, place: launcher.Place | None) -> None:
        self.busy = False
        """Whether the others are in the middle of a command."""
        self.group = Group(None, 0, 1)
        self.hosts = [socket.gethostname()]
        if place is None:
            return
        silence = watch.SILENCE * (1 if place.rank == 0 else 2)
        try:
            self.group = Group(dist.new_group(backend="gloo", timeout=TIMEOUT), *place)
            line = Group(dist.new_group(backend="gloo", timeout=timedelta(seconds=silence)), *place)
        except RuntimeError as error:
            raise WorkerDied(f"rank {place.rank} of {place.size} cannot connect with the others: {error}") from error
        self._line = line
        self._watch = watch.Watch(line, self.group)
        self.hosts = json.loads(self.broadcast_text(json.dumps(self.collect_texts(socket.gethostname()))))

    @property
    def rank(self) -> int:
        return self.group.rank

    @property
    def size(self) -> int:
        return self.group.size

    @property
    def speaks(self) -> bool:
        """Whether this rank tells the user what went wrong: rank 0, and others only if it cannot."""
        return self.rank == 0 or 0 in self._watch.lost

    @contextmanager
    def together(self) -> Generator[None]:
        """A command that all ranks carry out."""
        self.busy = True
        try:
            yield
        except Disconnected as error:
            raise self._cause(error) from None  # the message says all
        self.busy = False

    def broadcast_text(self, text: str = "") -> str:
        """Rank 0's text, on all ranks."""
        with self.together():
            return self.group.broadcast_text(text)

    def collect_texts(self, text: str) -> list[str]:
        """The texts of all ranks, at rank 0."""
        with self.together():
            return self.group.collect_texts(text)

    def agree(self, facts: Mapping[str, str]) -> None:
        """Raise unless all ranks have the same facts, by their names in words."""
        if self.size == 1:
            return
        for rank, text in enumerate(self.collect_texts(json.dumps(dict(facts)))):
            there = json.loads(text)
            for name in {**facts, **there}:
                if facts.get(name) != there.get(name):
                    raise InputError(
                        f"the ranks are not to play the same run: {name} is {facts.get(name, 'not set')} on "
                        f"{self.name_of(0)} and {there.get(name, 'not set')} on {self.name_of(rank)}. Give all ranks "
                        "the same command, files and versions."
                    )
        self.broadcast_text()  # nobody begins before rank 0 has found all equal

    def name_of(self, rank: int) -> str:
        return f"rank {rank} ({self.hosts[rank] if rank < len(self.hosts) else 'host not known'})"

    def end(self) -> None:
        """After a run the ranks stay, for what comes next."""

    def close(self, error: BaseException | None = None) -> None:
        """Leave together; an error is told to all."""
        if self.size == 1:
            return
        if isinstance(error, SystemExit) and not error.code:
            error = None
        if self.rank == 0:
            self._watch.say(watch.FINE if error is None else json.dumps(as_told(error)))
        elif error is None or self._watch.settled.is_set():
            self._watch.join()
            if error is None and self._watch.ending not in (None, watch.FINE):
                raise as_raised(self._watch.ending)
        else:
            self._watch.say(json.dumps(as_told(error)))
        if error is None and not self._watch.lost:
            dist.destroy_process_group(self._line.pg)
            dist.destroy_process_group(self.group.pg)

    def _cause(self, error: Disconnected) -> BaseException:
        """Why a connection was lost, as this rank is to raise it."""
        self._watch.settled.wait(2 * watch.SILENCE)
        if self.rank > 0 and self._watch.ending is not None:
            return as_raised(self._watch.ending)
        told = [(rank, text) for rank, text in sorted(self._watch.lost.items()) if text]
        for rank, text in told or sorted(self._watch.lost.items()):
            who = f"{self.name_of(rank)} of {self.size}"
            if text:
                what = json.loads(text)
                if what["kind"] == "InputError":
                    return InputError(f"{who}: {what['message']}")
                return WorkerDied(f"{who} has ended: {what['message']}")
            if rank in self._watch.silent:
                return WorkerDied(
                    f"{who} has not answered for {watch.SILENCE:g} seconds; is its host down, or the network between?"
                )
            return WorkerDied(f"{who} has ended without a word; was it killed? Was there enough memory?")
        return WorkerDied(f"the connection to another rank was lost: {error}")


def as_told(error: BaseException) -> dict[str, Any]:
    """An error as text for other ranks."""
    message = str(error)[:LONGEST_CAUSE]
    if isinstance(error, Diverged):
        history, events = list(error.history or ()), list(error.events or ())
        return {"kind": "Diverged", "message": message, "round": error.round, "history": history, "events": events}
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 1
        return {"kind": "SystemExit", "message": f"its exit code is {code}", "code": code}
    if isinstance(error, InputError | WorkerDied):
        return {"kind": "InputError" if isinstance(error, InputError) else "WorkerDied", "message": message}
    trace = "".join(traceback.format_exception(error))[-LONGEST_CAUSE:]
    return {"kind": type(error).__name__, "message": f"{type(error).__name__}: {message}\n{trace}"}


def as_raised(ending: str) -> BaseException:
    """The error of rank 0, on another rank."""
    if ending == watch.FINE:
        return WorkerDied("rank 0 has ended while this rank was waiting for it.")
    told = json.loads(ending)
    if told["kind"] == "SystemExit":
        return SystemExit(told["code"])
    if told["kind"] == "Diverged":
        error = Diverged(told["round"], told["message"])
        error.history, error.events = History(told["history"]), events_from(told["events"])
        return error
    if told["kind"] == "InputError":
        return InputError(told["message"])
    return WorkerDied(f"rank 0 has ended: {told['message']}")


_current: Ranks | None = None


def current() -> Ranks:
    """The ranks that this process computes with now."""
    return Ranks(None) if _current is None else _current


def refuse_ranks(what: str) -> None:
    """For what plays several runs, each in a process of its own."""
    with all_ranks() as ranks:
        if ranks.size > 1:
            raise InputError(
                f"{what} plays several runs side by side on one machine, and {ranks.size} ranks were started; start it "
                "without torchrun or srun, or play single runs on these ranks with run."
            )


@contextmanager
def all_ranks() -> Generator[Ranks]:
    """All ranks of a launch, connected and watched; inside of another one, that one."""
    global _current
    if _current is not None or (place := launcher.join()) is None:
        yield current()
        return
    _current = Ranks(place)
    try:
        yield _current
    except BaseException as error:
        _current.close(error)
        raise
    else:
        _current.close()
    finally:
        _current = None
