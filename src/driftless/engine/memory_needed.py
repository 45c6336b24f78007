"""What a run needs beside its data, in memory and on disk: estimated before it starts, refused if it cannot fit."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import torch

from driftless.algorithm import Facts
from driftless.data.cohorts import FromFunction, Schedule
from driftless.data.memory import free_memory
from driftless.engine.example_upload import example_upload
from driftless.engine.minibatches import Workload
from driftless.engine.settings import GIGABYTE, EngineSettings
from driftless.engine.tree import Tree, leaves
from driftless.errors import InputError

SHARE = 0.5
"""Of the free memory: client state that needs more goes to the disk if `store` is "auto"."""
BLOCK_VECTORS = 8
"""Vectors of a client in training: model, gradient, state, update, what the algorithm adds."""
SERVER_STATES = 4
"""The server before and after a round, the message, the sums."""
UPLOAD_COPIES = 2
"""Of the uploads of a round: as they arrive from each block, and joined."""
COPIES = 2
"""Of each row in a checkpoint (runs/checkpoint.py)."""
MOST_SETS = 3
"""Sets of all rows in the checkpoints: up to two with stale rows, and one that is written anew."""


class MemoryNeeded(NamedTuple):
    clients: int
    """That can take part in the run."""
    rows: int
    """Bytes of their stored states, and of their last models if these are kept."""
    round: int
    """Bytes of a round, always in memory: the server, sums, and the new states of a cohort."""
    block: int
    """Bytes of the vectors of clients in training, at most: how many there are at a time is decided later."""
    uploads: int = 0
    """Bytes of a round that are for the uploads of all its clients, if the aggregation needs them at once."""

    def memory(self, store: str) -> int:
        """What surely has to fit, whatever the size of a block."""
        return self.round + (self.rows if store == "memory" else 0)

    def text(self, store: str) -> str:
        state, memory = f"the state of {self.clients:,} clients", size_text(self.memory(store) + self.block)
        on_disk = f"{size_text(self.rows)} on disk for {state}, " if self.rows and store == "disk" else ""
        parts = {state: 0 if on_disk else self.rows, "all uploads of a round": self.uploads}
        said = "".join(f", {size_text(size)} of it for {what}" for what, size in parts.items() if size)
        return f"up to {on_disk}{memory} in memory{said}"

    def checkpoints_text(self) -> str:
        return f", checkpoints up to {size_text(COPIES * MOST_SETS * self.rows)}" if self.rows else ""


def memory_needed(
    work: Workload,
    cohort: Schedule,
    rounds: int,
    settings: EngineSettings,
    keeps_models: bool,
    needs_all_uploads: bool = False,
) -> MemoryNeeded:
    x, clients = work.model.initial, work.federation.clients
    state = work.algorithm.init_client(x)
    kept = (state, x) if keeps_models else state
    server = work.algorithm.init_server(x, Facts(work.model.layers, clients))
    number = participants(cohort, clients, rounds)
    largest = cohort.size(1, clients) if isinstance(cohort, FromFunction) else cohort.size(rounds, clients)
    of_a_client = BLOCK_VECTORS * size_of(x)
    block = min(largest * of_a_client, most_processes(settings) * max(int(settings.memory * GIGABYTE), of_a_client))
    uploads = UPLOAD_COPIES * largest * size_of(example_upload(work)) if needs_all_uploads else 0
    of_a_round = largest * size_of(kept) + SERVER_STATES * size_of(server) + uploads
    return MemoryNeeded(number, number * size_of(kept, settings.stored_as), of_a_round, block, uploads)


def most_processes(settings: EngineSettings) -> int:
    return settings.workers if isinstance(settings.workers, int) else os.cpu_count() or 1


def participants(cohort: Schedule, clients: int, rounds: int) -> int:
    """The most clients that can take part; all of them if a function chooses, because it is asked round by round."""
    if isinstance(cohort, FromFunction):
        return clients
    total = 0
    for t in range(1, rounds + 1):
        total += cohort.size(t, clients)
        if total >= clients:
            return clients
    return total


def size_of(tree: Tree, stored_as: torch.dtype | None = None) -> int:
    """Bytes; `stored_as`: the type of vectors, if not their own."""
    return sum(
        leaf.numel() * (stored_as.itemsize if stored_as and leaf.dim() and leaf.is_floating_point() else leaf.itemsize)
        for leaf in leaves(tree)
    )


def chosen_store(setting: str, needed: MemoryNeeded) -> str:
    """ "memory" or "disk". Where free memory is unknown, "auto" is memory."""
    if setting != "auto":
        return setting
    free = free_memory()
    fits = free is None or needed.rows == 0 or needed.memory("memory") <= SHARE * free
    return "memory" if fits else "disk"


def check_fits(store: str, needed: MemoryNeeded, folder: Path, *, checkpoints: bool) -> None:
    """Raise unless the run fits into the free memory and on the disk of `folder`."""
    free = free_memory()
    if free is not None and needed.memory(store) > free:
        remedy = "use a smaller cohort, a smaller model or engine.block_size=1"
        if needed.uploads:
            remedy = "use a smaller cohort, a smaller model or server.aggregation='mean'"
        if store == "memory" and needed.rows > needed.uploads:
            remedy = "set engine.store='disk' or engine.store_dtype='bfloat16', or use fewer clients or rounds"
        raise InputError(
            f"the run needs {needed.text(store)}, and {size_text(free)} of memory are free; {remedy}, or a machine "
            "with more memory."
        )
    on_disk = needed.rows * ((store == "disk") + COPIES * checkpoints)
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    space = shutil.disk_usage(place).free
    if on_disk > space:
        what = "client state" if store == "disk" else "checkpoints of client state"
        what += " and its checkpoints" if store == "disk" and checkpoints else ""
        raise InputError(
            f"the run needs up to {size_text(on_disk)} for {what} ({needed.clients:,} clients), and "
            f"{size_text(space)} are free on the disk of '{place}'; set engine.store_dtype='bfloat16', use fewer "
            f"clients or rounds, or another disk ({'output=...' if checkpoints else 'TMPDIR'})."
        )


def size_text(size: int) -> str:
    """ "16 GB", "0.5 GB", "31 KB"."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if size >= unit / 2:
            number = size / unit
            return f"{number:,.0f} {name}" if number >= 10 else f"{number:.1f} {name}"
    return f"{size} bytes"
