"""Norms of the mean update and cosines between updates: what figures 6, 29-35 and 36 share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

from driftless.papers.large_cohort.measures import by_cohort, cohort_size, second_half, tasks_of
from driftless.papers.large_cohort.settings import Task
from driftless.reproduce.experiment import Check
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import Measure, Outcome, above, below


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
                    yield below(what, second_half(other, "norm_update"), second_half(one, "norm_update"))

    return checks


def norm_ratio(outcome: Outcome, data: str, task: Task, name: str) -> tuple[int, float]:
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
        yield Check(f"{data}, FedAvg: mean cosine {cosine:.4f} in the second half", bool(abs(cosine) <= 0.05))


LATE_NORM = Measure("norm of the mean update, second half", lambda r: r.last("norm_update", 0.5), digits=4)
ORDERED_RULE = "From each cohort size to the next, the mean norm over the second half of the rounds falls."
