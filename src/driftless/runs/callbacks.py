"""What is called during a run: trackers, stopping rules, the user's own code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from driftless.config.resolution import Config
from driftless.engine.history import Event, Record
from driftless.progress import Bar


class Callback:
    """What is called during a run on disk; override what you need.

    A callback sees a run, it cannot change it, except by ending it. Numbers that `on_round` puts into `record.metrics`
    are kept with the round's own, in metrics.jsonl.

    Attributes:
        writes_nothing: True spares the copies of the server's vectors: `on_round` does not write into its record. It is
            called after those that may, with the numbers that they have added. Default False.

    Examples:
        >>> import driftless
        >>> from driftless.runs.callbacks import Callback
        >>> class StopAfterTwo(Callback):
        ...     def on_round(self, record):
        ...         return "two rounds are enough" if record.round == 2 else None
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> run = driftless.run(
        ...     "fedavg", federation, "logistic", output="runs/short", rounds=5, cohort=4, callbacks=[StopAfterTwo()]
        ... )
        >>> run.result["status"], run.result["reason"]
        ('stopped', 'two rounds are enough')
    """

    writes_nothing: ClassVar[bool] = False

    def on_start(self, config: Config, directory: Path | None, first_round: int) -> None:
        """Before the first round that this process plays.

        Args:
            config: All settings of the run.
            directory: The folder of the run; None if there is none.
            first_round: 1, or later when a run is resumed.
        """

    def on_round(self, record: Record) -> str | None:
        """After each round, its metrics complete.

        Args:
            record: The round, in copies that may be written into.

        Returns:
            A text ends the run; it is the reason. None: the run goes on.
        """
        return None

    def on_event(self, event: Event) -> None:
        """A client was left out, a round was lost, or a warning.

        Args:
            event: What happened.
        """

    def on_end(self, result: Mapping[str, Any]) -> None:
        """After the last round; not called when the process is killed.

        Args:
            result: What result.json holds.
        """


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
