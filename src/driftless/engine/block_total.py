"""The sums of a round's blocks at rank 0: received while it still trains, added in the order of the blocks."""

from __future__ import annotations

import queue
import threading
import time

from driftless.engine.group import Group
from driftless.engine.minibatches import Block
from driftless.engine.packing import room_for, unpacked
from driftless.engine.sums import BlockSums, add, like_block

WAITING_SUMS = 4
"""Sums of other ranks that are received before their turn to be added: each is as large as an upload."""


class BlockTotal:
    """Own sums are added when they are there, those of others by a thread that receives them in block order."""

    def __init__(self, group: Group, blocks: list[Block], ranks: list[int]) -> None:
        self.waited = 0.0
        """Seconds that this rank had nothing to do but wait for sums of others."""
        self._group, self._blocks, self._ranks = group, blocks, ranks
        self._own: dict[int, BlockSums] = {}
        self._received: queue.Queue[BlockSums | Exception] = queue.Queue(WAITING_SUMS)
        self._ended = False
        self._thread: threading.Thread | None = None
        self._next = 0
        self._total: BlockSums | None = None

    def add_own(self, i: int, sums: BlockSums) -> None:
        self._own[i] = sums
        if self._thread is None:  # what the others send has the structure of these
            self._thread = threading.Thread(target=self._receive, args=(sums,), daemon=True)
            self._thread.start()
        self._add_ready()

    def result(self) -> BlockSums:
        """When all own blocks are trained."""
        while self._next < len(self._ranks):
            start = time.perf_counter()
            found = self._received.get()
            self.waited += time.perf_counter() - start
            self._add(found)
            self._add_ready()
        assert self._total is not None
        return self._total

    def close(self) -> None:
        """Also in the middle of a round: the thread must not wait for a place for its sums."""
        self._ended = True
        while not self._received.empty():
            self._received.get()

    def _add_ready(self) -> None:
        while self._next < len(self._ranks):
            if self._ranks[self._next] == 0:
                if self._next not in self._own:
                    return
                self._add(self._own.pop(self._next))
            else:
                try:
                    self._add(self._received.get_nowait())
                except queue.Empty:
                    return

    def _add(self, found: BlockSums | Exception) -> None:
        if isinstance(found, Exception):
            raise found
        self._total = add(self._total, found)
        self._next += 1

    def _receive(self, example: BlockSums) -> None:
        try:
            for block, rank in zip(self._blocks, self._ranks, strict=True):
                if rank > 0 and not self._ended:
                    like = like_block(example, len(block.clients))
                    self._received.put(unpacked(self._group.receive(room_for(like), rank), like))
        except Exception as error:  # raised where the sums are needed
            self._received.put(error)
