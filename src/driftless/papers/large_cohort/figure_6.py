"""Figure 6: norms of the mean update and the inverse square root rule."""

from __future__ import annotations

import math
from collections.abc import Iterable

from driftless.papers.large_cohort.measures import by_cohort, cohort_size, curve_panels, second_half, tasks_of
from driftless.papers.large_cohort.settings import Task, paper_setup, small_setup
from driftless.papers.large_cohort.update_norms import (
    LATE_NORM,
    ORDERED_RULE,
    cosine_panels,
    fedsgd_shrinks_less,
    ordered_by_cohort,
    orthogonal,
)
from driftless.reproduce.checks import Check, close
from driftless.reproduce.experiment import Claim, Experiment
from driftless.reproduce.figure import Line, Panel
from driftless.reproduce.outcome import Outcome


def predicted(outcome: Outcome, data: str, task: Task) -> list[Panel]:
    """FedAvg's norms, dashed beside them what the inverse square root of the cohort predicts from the reference."""
    base = outcome.one(data=data, algorithm="FedAvg", cohort=task.reference)
    if not any("norm_update" in run.metrics for run in base.runs):
        return []
    x, norm, _ = base.curve("norm_update")
    lines = []
    for one in by_cohort(outcome, data=data, algorithm="FedAvg"):
        cohort = cohort_size(one)
        if cohort > task.reference:
            at, seen, _ = one.curve("norm_update")
            lines.append(Line(f"M = {cohort}, seen", at.tolist(), seen.tolist()))
            lines.append(
                Line(f"M = {cohort}, predicted", x.tolist(), (norm * math.sqrt(task.reference / cohort)).tolist())
            )
    return [
        Panel(
            f"FedAvg, {data}, from M = {task.reference}", "rounds", "norm of the mean update", tuple(lines), log_y=True
        )
    ]


def norms_and_cosines(outcome: Outcome) -> list[Panel]:
    panels: list[Panel] = curve_panels("FedAvg", key="norm_update", log=True)(outcome)
    for data, task in tasks_of(outcome):
        panels += predicted(outcome, data, task)
    return panels + cosine_panels(outcome)


def inverse_root(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        start = second_half(outcome.one(data=data, algorithm="FedAvg", cohort=task.reference), "norm_update")
        for one in by_cohort(outcome, data=data, algorithm="FedAvg"):
            if (cohort := cohort_size(one)) > task.reference:
                seen, predicted = second_half(one, "norm_update") / start, math.sqrt(task.reference / cohort)
                what = f"{data}, norm with M = {cohort} over M = {task.reference}, as predicted up to 25 %"
                yield from close(what, seen / predicted, 1.0, 0.25)


FIGURE_6 = Experiment(
    name="figure-6",
    title="Norms of the mean update and the inverse square root rule",
    where="Figure 6, section 4",
    about="Norm of the mean client update for FedSGD and FedAvg; the norm that an inverse square root of the cohort "
    "size predicts; and the mean cosine between the updates of a cohort.",
    paper=paper_setup("FedSGD", "FedAvg"),
    small=small_setup("FedSGD", "FedAvg"),
    measure=LATE_NORM,
    columns="cohort",
    claims=(
        Claim(
            "stratified",
            "For FedAvg larger cohorts have smaller norms.",
            f"{ORDERED_RULE}.",
            ordered_by_cohort("FedAvg"),
            paper='"smaller norms with little overlap" (section 4); drawn',
        ),
        Claim(
            "inverse-root",
            "The norm of FedAvg's mean update falls with the inverse square root of the cohort size.",
            "For each larger cohort, the norm over that of M = 50 (small scale: 20), means of the second half, is "
            "within 25 % of the square root of the ratio of the cohorts, on average over the seeds.",
            inverse_root,
            paper='"a remarkably good approximation" (section 4); drawn',
        ),
        Claim(
            "fedsgd-less",
            "For FedSGD the norm falls only slightly with the cohort size.",
            "From M = 50 (20) to the largest cohort the norm shrinks less for FedSGD than for FedAvg.",
            fedsgd_shrinks_less,
            paper='"decreases slightly" (section 4); drawn',
        ),
        Claim(
            "orthogonal",
            "The updates of FedAvg's clients are almost orthogonal.",
            "With M = 50 (20) the mean cosine over the second half of the rounds is less than 0.05 in size.",
            orthogonal,
            paper='"on average almost orthogonal" (section 4); drawn',
        ),
    ),
    figure=norms_and_cosines,
)  # fmt: skip
