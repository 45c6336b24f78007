"""What is called during a run: trackers, stopping rules, the user's own code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from driftless.config.resolution import Config
from driftless.engine.history import Event, Record
from driftless.progress import Bar


class Callback:
    """Override what you need. A callback sees a run, it cannot change it, except by ending it.

    Numbers that `on_round` puts into `record.metrics` are kept with the round's own, in metrics.jsonl.
    """

    writes_nothing: ClassVar[bool] = False
    """True spares the copies of the server's vectors: `on_round` does not write into its record. It is called
    after those that may, with the numbers that they have added."""

    def on_start(self, config: Config, directory: Path | None, first_round: int) -> None:
        """Before the first round that this process plays (1, or later when a run is resumed)."""

    def on_round(self, record: Record) -> str | None:
        """After each round, its metrics complete. A returned text ends the run; it is the reason."""
        return None

    def on_event(self, event: Event) -> None:
        """A client was left out, a round was lost, or a warning."""

    def on_end(self, result: Mapping[str, Any]) -> None:
        """After the last round, with what result.json holds; not called when the process is killed."""


class ShowProgress(Callback):
    """Moves a bar with each round of a run."""

    writes_nothing = True

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._monitor = ""

    def on_start(self, config: Config, directory: Path | None, first_round: int) -> None:
        self._monitor = config.evaluate.monitor or ""
        self._bar(first_round - 1)

    def on_round(self, record: Record) -> None:
        self._bar.show_round(record.round, record.metrics, self._monitor)
