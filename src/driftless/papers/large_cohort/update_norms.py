"""Norms of the mean update and cosines between updates: what figures 6, 29-35 and 36 share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

from driftless.papers.large_cohort.measures import by_cohort, cohort_size, second_half, tasks_of
from driftless.papers.large_cohort.settings import Task
from driftless.reproduce.checks import Check, above, below, close
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.intervals import Floats
from driftless.reproduce.outcome import Measure, Outcome


def cosine_panels(outcome: Outcome) -> list[Panel]:
    panels = []
    for data, task in tasks_of(outcome):
        drawn = curves(outcome, "cosine", by="data", data=data, cohort=task.reference)
        panels += [replace(panel, title=f"{data}, M = {task.reference}") for panel in drawn]
    return panels


def ordered_by_cohort(*algorithms: str) -> Callable[[Outcome], Iterable[Check]]:
    def checks(outcome: Outcome) -> Iterable[Check]:
        for data, _ in tasks_of(outcome):
            for name in algorithms:
                for one, other in pairwise(by_cohort(outcome, data=data, algorithm=name)):
                    what = f"{data}, {name}: norm with M = {cohort_size(other)} against M = {cohort_size(one)}"
                    ratio = second_half(other, "norm_update") / second_half(one, "norm_update")
                    yield below(f"{what}, ratio", ratio, 1.0)

    return checks


def norm_ratio(outcome: Outcome, data: str, task: Task, name: str) -> tuple[int, Floats]:
    """The largest cohort, and its norm over that of the reference."""
    start = outcome.one(data=data, algorithm=name, cohort=task.reference)
    end = by_cohort(outcome, data=data, algorithm=name)[-1]
    return cohort_size(end), second_half(end, "norm_update") / second_half(start, "norm_update")


def fedsgd_shrinks_less(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        for name in outcome.places("algorithm", data=data):
            if name != "FedSGD":
                cohort, single = norm_ratio(outcome, data, task, "FedSGD")
                _, several = norm_ratio(outcome, data, task, str(name))
                yield above(
                    f"{data}, norm with M = {cohort} over M = {task.reference}: FedSGD against {name}", single, several
                )


def orthogonal(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        cosine = second_half(outcome.one(data=data, algorithm="FedAvg", cohort=task.reference), "cosine")
        yield from close(f"{data}, FedAvg: mean cosine in the second half, up to 0.05", cosine, 0.0, 0.05)


LATE_NORM = Measure("norm of the mean update, second half", lambda r: r.last("norm_update", 0.5), digits=4)
ORDERED_RULE = "From each cohort size to the next, the mean norm over the second half of the rounds falls"
