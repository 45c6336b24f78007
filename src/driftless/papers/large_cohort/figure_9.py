"""Figures 9, 39 and 40: cohorts that grow during training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from driftless.papers.large_cohort.measures import ACCURACY, accuracy_over, log_examples, tasks_of
from driftless.papers.large_cohort.settings import PAPER_TASKS, REDUCED, SMALL_TASKS, Task, run_settings
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Cell, Claim, Experiment, Place, Setup
from driftless.reproduce.figure import Panel
from driftless.reproduce.outcome import Outcome, Result, mean_of


def dynamic_cells(tasks: Mapping[str, Task]) -> tuple[Cell, ...]:
    """Fixed at both ends, and doubled four times on the way: 50 to 800 every 300 of 1,500 rounds."""
    found = []
    for data, task in tasks.items():
        start, most = task.reference, task.cohorts[-1]
        kinds: dict[str, int | str] = {
            "small": start, "doubling": f"doubling:{start},{task.rounds // 5},{most}", "large": most,
        }  # fmt: skip
        for name in ("FedAvg", "FedAdam"):
            for kind, cohort in kinds.items():
                at: dict[str, Place] = {"data": data, "algorithm": name, "cohort": kind}
                found.append(Cell(at, run_settings(task, name, cohort)))
    return tuple(found)


def fixed_and_growing(outcome: Outcome) -> Iterable[tuple[str, Result, Result, Result]]:
    for data, _ in tasks_of(outcome):
        for name in outcome.places("algorithm", data=data):
            few, growing, many = (
                outcome.one(data=data, algorithm=name, cohort=kind) for kind in ("small", "doubling", "large")
            )
            yield f"{data}, {name}", few, growing, many


def dynamic_efficient(outcome: Outcome) -> Iterable[Check]:
    for what, _, growing, many in fixed_and_growing(outcome):
        yield below(f"{what}: log of the examples to the task's accuracy, doubling against large",
                    log_examples(growing), log_examples(many))  # fmt: skip


def dynamic_accurate(outcome: Outcome) -> Iterable[Check]:
    for what, few, growing, many in fixed_and_growing(outcome):
        middle = (ACCURACY(few) + ACCURACY(many)) / 2
        towards = np.sign(mean_of(ACCURACY(many) - ACCURACY(few)))
        yield above(f"{what}: doubling beyond the middle of small and large, up to half a point",
                    towards * (ACCURACY(growing) - middle), 0.0, by=-0.5, unit=" points")  # fmt: skip


def dynamic_bounded(outcome: Outcome) -> Iterable[Check]:
    """Better than both by more than a point in no setting: the better one is that with the higher mean."""
    for what, few, growing, many in fixed_and_growing(outcome):
        better = max(few, many, key=lambda one: mean_of(ACCURACY(one)))
        yield below(f"{what}: doubling against the better fixed size, up to 1 point", ACCURACY(growing),
                    ACCURACY(better), by=-1, unit=" %")  # fmt: skip


def growing_panels(outcome: Outcome) -> list[Panel]:
    return [
        replace(panel, title=f"{name}, {panel.title}")
        for name in ("FedAvg", "FedAdam")
        for panel in accuracy_over(outcome, "examples", algorithm=name)
    ]


FIGURE_9 = Experiment(
    name="figure-9",
    title="Cohorts that grow during training",
    where="Figures 9 and 39-40, section 5.3 and B.8",
    about="FedAvg and FedAdam with 50 clients a round, doubled every 300 of 1,500 rounds, against the fixed sizes at "
    "both ends.",
    paper=Setup(dynamic_cells(PAPER_TASKS), seeds=5),
    small=Setup(
        dynamic_cells(SMALL_TASKS), 3, 6, reduced=REDUCED + " The cohort grows from 20 to 320 in four doublings."
    ),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "data-efficient",
            "The growing cohort needs fewer examples than the large one.",
            "On average over tasks and algorithms, the logarithm of the examples until the task's accuracy (small "
            "scale: 70 % and 60 %) is smaller.",
            dynamic_efficient,
            "average",
            paper='"data efficiency closer to a fixed cohort size of M = 50" (section 5.3); drawn',
        ),
        Claim(
            "accurate",
            "It ends with an accuracy closer to the large cohort's than to the small one's.",
            "On average over tasks and algorithms, its final accuracy is beyond the middle between both on the large "
            "one's side, up to half a point.",
            dynamic_accurate,
            "average",
            paper='"closer to having used a large fixed cohort size" (section 5.3); drawn',
        ),
        Claim(
            "bounded",
            "It is never better than the better of the two fixed sizes.",
            "On average over tasks and algorithms, it is less than 1 point above the better of both.",
            dynamic_bounded,
            "average",
            paper='"never attains a better accuracy than M = 800" (section 5.3)',
        ),
    ),
    figure=growing_panels,
)  # fmt: skip
