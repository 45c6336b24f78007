"""Which ranks are still there, and why one is not: a thread on each rank that hears from the others all the time.

Rank 0 hears from each of the others twice a second, and they from it. A rank that ends by an error says why, rank 0
says how all has ended. A rank whose connection is closed has been killed; one that says nothing for SILENCE seconds is
on a host that is down or cannot be reached. Then the run's own connections are cut, and whatever waits on them ends.
"""

from __future__ import annotations

import threading

from driftless.engine.group import Disconnected, Group

BEAT = 0.5
"""Seconds between two signs of life."""
SILENCE = 30.0
"""Seconds without one after which a rank is given up. The others wait twice as long for rank 0, which may be waiting
for one of them."""


FINE = "fine"
"""What rank 0 says when all has ended well."""
SECONDS_FOR_THE_REST = 3.0
"""In which those that are left are told that a rank is lost: others may be lost with it."""


class Watch:
    """`line` is a group of its own, whose time-out is SILENCE; `cut` are the connections of the run."""

    def __init__(self, line: Group, cut: Group) -> None:
        self.lost: dict[int, str] = {}
        """Ranks that have ended, and what they said of it; empty: nothing."""
        self.silent: set[int] = set()
        """Of these, those that have not closed their connection."""
        self.ending: str | None = None
        """What rank 0 has said at the end."""
        self.settled = threading.Event()
        """Whether one of these is known."""
        self._line, self._cut = line, cut
        self._text = ""
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._lead if line.rank == 0 else self._follow, daemon=True)
        self._thread.start()

    def say(self, text: str) -> None:
        """Why this rank ends, or at rank 0 how all end; returns when all have been told, or rank 0 is lost."""
        self._text = text
        self._wake.set()
        self.join()

    def join(self) -> None:
        self._thread.join(SECONDS_FOR_THE_REST if self._line.rank == 0 and self.lost else None)

    def _lead(self) -> None:
        others = set(range(1, self._line.size))
        while others:
            for rank in sorted(others):
                try:
                    said = self._line.receive_text(rank)
                except Disconnected as error:
                    others.discard(rank)
                    self._lose(rank, "", silent="Timed out" in str(error))
                    continue
                if said:
                    self._lose(rank, said)
            ending = self._text
            for rank in sorted(others):
                try:
                    self._line.send_text(ending, rank)
                except Disconnected as error:
                    others.discard(rank)
                    self._lose(rank, "", silent="Timed out" in str(error))
            if ending:
                return
            self._wake.wait(BEAT)

    def _follow(self) -> None:
        try:
            while self.ending is None:
                text, self._text = self._text, ""
                self._line.send_text(text, 0)
                self.ending = self._line.receive_text(0) or None
        except Disconnected as error:
            self._lose(0, "", silent="Timed out" in str(error))
            return
        self.settled.set()
        if self.ending != FINE:
            self._cut.cut()

    def _lose(self, rank: int, why: str, silent: bool = False) -> None:
        if silent:
            self.silent.add(rank)
        self.lost.setdefault(rank, why)
        self.settled.set()
        self._cut.cut()
