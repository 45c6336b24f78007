"""What is measured on the runs, and the figures that several experiments draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from driftless.papers.large_cohort.settings import TASKS, Task
from driftless.report.curves import Run
from driftless.report.metrics import AXES
from driftless.reproduce.experiment import Place
from driftless.reproduce.figure import Panel, curves, sweep
from driftless.reproduce.intervals import Floats
from driftless.reproduce.outcome import Measure, Outcome, Result

ACCURACY = Measure("test accuracy (%) at the end", lambda r: r.last(), 100)
TRAINED = Measure("training accuracy (%) at the end", lambda r: r.last("cohort_accuracy"), 100)
"""Of the model that is sent out, on the cohort's training data."""


def second_half(result: Result, key: str) -> Floats:
    """The mean over the second half of the rounds."""
    return result.last(key, share=0.5)


def tasks_of(outcome: Outcome, *, few: bool | None = None) -> list[tuple[str, Task]]:
    """The tasks that were run; `few`: only those with few (or many) clients."""
    found = [(str(data), TASKS[str(data)]) for data in outcome.places("data")]
    return [(data, task) for data, task in found if few is None or task.few_clients == few]


def by_cohort(outcome: Outcome, **at: Place) -> list[Result]:
    return sorted(outcome.pick(**at), key=lambda one: one.cell.at["cohort"])


def cohort_size(result: Result) -> int:
    return int(result.cell.at["cohort"])


def failed(run: Run) -> bool:
    """The training accuracy was halved in a round, or the run could not go on."""
    return run.status == "diverged" or bool(np.nansum(run.column("failure")) > 0)


def failures(result: Result) -> list[bool]:
    return [failed(run) for run in result.runs]


FAILURES = Measure("runs with a catastrophic failure (%)", lambda r: r.of_runs(failed), 100, better="low", digits=0)
ROUNDS_TO = Measure("rounds to the task's accuracy", lambda r: r.reach(target_of(r)), better="low", digits=0)
EXAMPLES_TO = Measure(
    "examples processed until the task's accuracy",
    lambda r: r.reach(target_of(r), axis="examples"),
    better="low",
    digits=0,
)


def target_of(result: Result) -> float:
    return TASKS[str(result.cell.at["data"])].target


def capped_rounds(result: Result) -> Floats:
    """Rounds to the task's accuracy; all of them where it is never reached."""
    return np.minimum(ROUNDS_TO(result), result.of_runs(lambda run: run.budget))


def log_examples(result: Result) -> Floats:
    """The logarithm of the examples to the task's accuracy: cohorts are compared by ratios; all of them if never."""
    return np.log(np.minimum(EXAMPLES_TO(result), result.of_runs(lambda run: float(run.total(AXES["examples"])[-1]))))


def neighbours(outcome: Outcome, name: str) -> Iterable[tuple[str, Result, Result]]:
    """Cohort sizes and the next larger ones."""
    for data, _ in tasks_of(outcome):
        for one, other in pairwise(by_cohort(outcome, data=data, algorithm=name)):
            yield f"{data}, {name}, M = {cohort_size(other)} against {cohort_size(one)}", one, other


def curve_panels(*algorithms: str, key: str = "test_accuracy", log: bool = False) -> Callable[[Outcome], list[Panel]]:
    """A panel for each algorithm and task, a line for each cohort size."""

    def panels(outcome: Outcome) -> list[Panel]:
        found = []
        for name in algorithms:
            for data in outcome.places("data", algorithm=name):
                drawn = curves(outcome, key, by="data", log=log, algorithm=name, data=data)
                found += [replace(panel, title=f"{name}, {data}") for panel in drawn]
        return found

    return panels


def train_and_test(outcome: Outcome) -> list[Panel]:
    return [
        *sweep(outcome, "cohort", TRAINED, by="data", log_x=True),
        *sweep(outcome, "cohort", ACCURACY, by="data", log_x=True),
    ]


def accuracy_over(outcome: Outcome, axis: str, algorithm: str) -> list[Panel]:
    """Test accuracy over the rounds or the examples, which differ by orders of magnitude between cohorts."""
    drawn = curves(outcome, "test_accuracy", by="data", axis=axis, algorithm=algorithm)
    return [replace(panel, log_x=axis == "examples") for panel in drawn]
