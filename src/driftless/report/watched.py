"""Runs that go on while they are looked at: what has changed since the last look, and how far they are."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from driftless.config.stored import read_stored
from driftless.report.metrics import plural
from driftless.runs.directory import CONFIG, EVENTS, METRICS, PLANNED, RESULT, StoredRun

FILES = (METRICS, EVENTS, RESULT, CONFIG, PLANNED)
"""What may change of a run, or shows that it is there."""
GOING_ON = "going on"


class Progress(NamedTuple):
    folder: str
    done: int
    """Rounds."""
    total: int
    status: str
    """ "planned", "going on", "finished", "stopped" or "diverged"."""


@dataclass(frozen=True)
class Seen:
    """A run, or a folder in which one is planned, as it was at some moment."""

    stored: StoredRun
    files: tuple[tuple[int, int], ...]
    """Size and time of each of FILES; (0, 0) for one that is not there."""

    @property
    def has_begun(self) -> bool:
        """As `is_run` says it; an empty file of metrics has a time."""
        return all(self.files[FILES.index(name)] != (0, 0) for name in (CONFIG, METRICS))

    @property
    def last_round(self) -> float:
        """When it was recorded, in seconds since 1970."""
        return self.files[0][1] / 1e9

    @cached_property
    def progress(self) -> Progress:
        run = self.stored
        config = run.config if self.has_begun else read_stored(run.path / PLANNED).config
        status = "planned" if not self.has_begun else str(run.result["status"]) if run.result else GOING_ON
        return Progress(str(run.path), int(run.rows[-1]["round"]) if run.rows else 0, config.run.rounds, status)


class Watched:
    """The runs at or below some folders. A run whose files have not changed is not read again."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = list(folders)
        self._seen: dict[Path, Seen] = {}
        self._lock = threading.Lock()

    def look(self) -> list[Seen]:
        """All runs as they are now, in the order of their folders."""
        with self._lock:
            now = {path: files_of(path) for path in folders_below(self._folders)}
            self._seen = {path: self._as_before(path, files) for path, files in now.items()}
            return list(self._seen.values())

    def _as_before(self, path: Path, files: tuple[tuple[int, int], ...]) -> Seen:
        before = self._seen.get(path)
        return before if before and before.files == files else Seen(StoredRun(path), files)


def folders_below(folders: Iterable[Path]) -> list[Path]:
    """Each folder of a run or of a planned run once. `os.walk` passes over what is deleted meanwhile."""
    found: dict[Path, None] = {}
    for top in folders:
        below = [Path(path) for path, _, files in os.walk(top) if PLANNED in files or {CONFIG, METRICS} <= set(files)]
        found |= dict.fromkeys(sorted(below))
    return list(found)


def files_of(folder: Path) -> tuple[tuple[int, int], ...]:
    return tuple(size_and_time(folder / name) for name in FILES)


def size_and_time(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def version_of(seen: Iterable[Seen]) -> str:
    """A short text that changes whenever a run does."""
    state = repr([(run.stored.path, run.files) for run in seen])
    return hashlib.sha256(state.encode()).hexdigest()[:16]


def status_text(seen: Sequence[Seen]) -> str:
    """ "6 runs: 2 finished, 3 going on, 1 planned; 130 of 240 rounds; last round 2 s ago"."""
    if not seen:
        return "No run yet."
    each = [run.progress for run in seen]
    statuses = [run.status for run in each]
    kinds = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    done, total = sum(run.done for run in each), sum(run.total for run in each)
    text = f"{plural(len(each), 'run')}: {kinds}; {done:,} of {total:,} rounds"
    if GOING_ON not in statuses:
        return text
    return f"{text}; last round {age(time.time() - max(run.last_round for run in seen))} ago"


def age(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole} s" if whole < 120 else f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"
