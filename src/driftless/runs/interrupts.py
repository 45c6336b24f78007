"""Ctrl-C and SIGTERM during a run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from driftless.runs.directory import how_to_continue


@contextmanager
def interrupts(directory: Path) -> Generator[Callable[[], bool]]:
    """Ctrl-C (or SIGTERM) lets the round end; a second one ends the process as usual, and says what that means."""
    seen: list[int] = []
    previous: dict[int, Any] = {}

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        signal.signal(number, previous[number])

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, note)
    except ValueError:
        pass  # not the main thread: whoever runs us there handles signals
    try:
        yield lambda: bool(seen)
    except KeyboardInterrupt:
        again = "the rounds since the last checkpoint were not saved and are played again by"
        raise KeyboardInterrupt(f"stopped at once; {again}: {how_to_continue(directory)}") from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
