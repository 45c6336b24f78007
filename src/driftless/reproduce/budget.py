"""Many experiments within a time: seed after seed, the experiment with the most undecided claims first."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from driftless.errors import InputError
from driftless.reproduce.experiment import Experiment, Paper, Scale
from driftless.reproduce.runner import Progress, Reproduced, is_played, look
from driftless.runs.jobs import sigterm_as_interrupt

UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600}


def seconds(text: str) -> float:
    """ "3h", "90min", "1.5 h"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h)\s*", text)
    if not found or float(found[1]) == 0:
        raise InputError(f"--budget is '{text}'; give a time such as 3h, 90min or 45s.")
    return float(found[1]) * UNITS[found[2]]


class Spent(Exception):
    """The time is over; what was begun is saved."""


@contextmanager
def at_most(limit: float) -> Generator[None]:
    """Ends what runs after so many seconds, as Ctrl-C would; runs save themselves, and a later call continues them."""
    spent = threading.Event()

    def stop() -> None:
        spent.set()
        os.kill(os.getpid(), signal.SIGTERM)

    timer = threading.Timer(limit, stop)
    timer.daemon = True
    timer.start()
    try:
        with sigterm_as_interrupt():
            yield
    except KeyboardInterrupt:
        if spent.is_set():
            raise Spent from None
        raise
    finally:
        timer.cancel()


class Standing(NamedTuple):
    """How far an experiment is."""

    paper: Paper
    experiment: Experiment
    next_seeds: int
    undecided: int
    """Claims that one more seed may decide."""
    done: Reproduced | None
    """The last look of which all runs have been played."""

    @property
    def title(self) -> str:
        return f"{self.paper.name}/{self.experiment.name}"


def standings(
    wanted: Sequence[tuple[Paper, Experiment]], scale: Scale, output: Path, jobs: int | None
) -> Iterator[Standing]:
    """By what has been played so far; nothing is played."""
    for paper, experiment in wanted:
        setup = experiment.setup(scale)
        if setup is None or not setup.cells:
            continue
        seeds, undecided, done = setup.seeds, len(experiment.claims), None
        while undecided and is_played(experiment, setup, output, seeds):
            done = look(paper, experiment, scale, output, seeds, jobs)
            seeds, undecided = seeds + 1, done.undecided if done.more_seeds else 0
        yield Standing(paper, experiment, seeds, undecided, done)


def open_experiments(
    wanted: Sequence[tuple[Paper, Experiment]], scale: Scale, output: Path, jobs: int | None
) -> list[Standing]:
    return [one for one in standings(wanted, scale, output, jobs) if one.undecided]


def work_down(
    wanted: Sequence[tuple[Paper, Experiment]], scale: Scale, output: Path, jobs: int | None,
    progress: Callable[[Standing], Progress],
) -> Iterator[Reproduced]:  # fmt: skip
    """What has been played before; then one look after the other, until everything is decided or has all its seeds."""
    left = []
    for one in standings(wanted, scale, output, jobs):
        if one.done:
            yield one.done
        if one.undecided:
            left.append(one)
    while left:
        left.sort(key=lambda one: -one.undecided)  # stable: of equals, the one that is listed first
        now = left.pop(0)
        done = look(now.paper, now.experiment, scale, output, now.next_seeds, jobs, progress(now))
        if done.more_seeds:
            left.append(now._replace(next_seeds=now.next_seeds + 1, undecided=done.undecided, done=done))
        yield done
