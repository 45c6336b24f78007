"""A progress bar over rounds, in one line of 80 columns: in a terminal, and in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

HEADLINES = ("test_accuracy", "test_loss", "train_loss")
"""The first of these that has been measured is shown, if nothing else is to be."""
LONGEST_TITLE = 16
NOTEBOOK_SECONDS = 0.2
"""Between two pictures that are sent to a notebook."""


class Bar:
    """Shows how many rounds are done, a text, the rate and the time left."""

    def __init__(self, progress: Progress, title: str, total: int) -> None:
        self._progress = progress
        self._total = total
        self._known: dict[str, float] = {}
        self._task = progress.add_task(shortened(title), total=total, text="")

    def __call__(self, done: int, text: str = "") -> None:
        self._progress.start()
        self._progress.update(self._task, completed=min(done, self._total), text=text)

    def show_round(self, round: int, metrics: Mapping[str, float], monitor: str = "") -> None:
        """A round of one run, with the newest value of what the run is judged by: the column `monitor`."""
        self._known |= metrics
        self(round, headline(self._known, monitor) if "train_loss" in metrics else "round lost")


@contextmanager
def rounds_bar(title: str, total: int, quiet: bool = False, console: Console | None = None) -> Generator[Bar]:
    """A bar on the standard error or in the notebook's cell, from its first call on; nothing where neither is there."""
    console = Console(stderr=True, emoji=False) if console is None else console
    kind = InNotebook if console.is_jupyter else Progress
    progress = kind(
        text_column("{task.description}"),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        text_column("{task.completed}/{task.total} rounds"),
        text_column("{task.fields[text]}"),
        Rate(table_column=Column(no_wrap=True)),
        TimeLeft(),
        console=console,
        expand=True,
        disable=quiet or not (console.is_terminal or console.is_jupyter),
        redirect_stdout=sys.stdout.isatty(),  # what is printed into a file or a pipe stays there
    )
    try:
        yield Bar(progress, title, total)
    finally:
        progress.stop()


def text_column(form: str) -> TextColumn:
    return TextColumn(form, markup=False, table_column=Column(no_wrap=True))


class Rate(ProgressColumn):
    """Rounds a second."""

    def render(self, task: Task) -> Text:
        return Text(rate_text(task.speed))


class TimeLeft(TimeRemainingColumn):
    """Of a finished task the time that it took."""

    def __init__(self) -> None:
        super().__init__(compact=True, elapsed_when_finished=True, table_column=Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        return Text.assemble(super().render(task), "" if task.finished else " left")


class InNotebook(Progress):
    """Rich draws into a notebook only with the package ipywidgets; every notebook can renew what it displays."""

    _handle: Any = None
    _drawn = 0.0

    def start(self) -> None:
        if self._handle is None and not self.disable:
            from IPython.display import display  # there is no notebook without it

            self._handle = display(self, display_id=True)

    def refresh(self) -> None:
        if self._handle is not None and time.monotonic() > self._drawn + NOTEBOOK_SECONDS:
            self._drawn = time.monotonic()
            self._handle.update(self)

    def update(self, *arguments: Any, **options: Any) -> None:
        super().update(*arguments, **options)
        self.refresh()

    def stop(self) -> None:
        self._drawn = 0.0  # the last picture is always sent
        self.refresh()


def headline(metrics: Mapping[str, float], monitor: str = "") -> str:
    """ "test accuracy 0.8123"."""
    name = next((name for name in (monitor, *HEADLINES) if name in metrics), None)
    return "" if name is None else f"{name.replace('_', ' ')} {metrics[name]:.4g}"


def rate_text(speed: float | None) -> str:
    if not speed:
        return ""
    return f"{speed:.1f}/s" if speed >= 1 else f"{1 / speed:.1f} s each"


def shortened(title: str) -> str:
    text = Text(title)
    text.truncate(LONGEST_TITLE, overflow="ellipsis")
    return text.plain
