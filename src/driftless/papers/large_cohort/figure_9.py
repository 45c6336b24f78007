"""Figures 9, 39 and 40: cohorts that grow during training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from driftless.papers.large_cohort.measures import ACCURACY, EXAMPLES_TO, accuracy_over, final_accuracy, tasks_of
from driftless.papers.large_cohort.settings import PAPER_TASKS, REDUCED, SMALL_TASKS, Task, run_settings
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Place, Setup
from driftless.reproduce.figure import Panel
from driftless.reproduce.outcome import Outcome, Result, below


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
        yield below(
            f"{what}: examples to the task's accuracy, doubling against large",
            EXAMPLES_TO(growing).mean,
            EXAMPLES_TO(many).mean,
        )


def dynamic_accurate(outcome: Outcome) -> Iterable[Check]:
    for what, few, growing, many in fixed_and_growing(outcome):
        low, own, high = final_accuracy(few), final_accuracy(growing), final_accuracy(many)
        closer = abs(own - high) <= max(abs(own - low), 0.5)
        yield Check(f"{what}: small {low:.2f} %, doubling {own:.2f} %, large {high:.2f} %", bool(closer))


def dynamic_bounded(outcome: Outcome) -> Iterable[Check]:
    for what, few, growing, many in fixed_and_growing(outcome):
        yield below(
            f"{what}: doubling against the better fixed size, up to 1 point",
            final_accuracy(growing),
            max(final_accuracy(few), final_accuracy(many)),
            by=-1,
            unit=" %",
        )


def growing_panels(outcome: Outcome) -> list[Panel]:
    return [
        replace(panel, title=f"{name}, {panel.title}")
        for name in ("FedAvg", "FedAdam")
        for axis in ("examples", "rounds")
        for panel in accuracy_over(outcome, axis, algorithm=name)
    ]


FIGURE_9 = Experiment(
    name="figure-9",
    title="Cohorts that grow during training",
    where="Figures 9 and 39-40, section 5.3 and B.8",
    about="FedAvg and FedAdam with 50 clients a round, doubled every 300 of 1,500 rounds, against the fixed sizes at "
    "both ends.",
    paper=Setup(dynamic_cells(PAPER_TASKS), seeds=5),
    small=Setup(dynamic_cells(SMALL_TASKS), 2, REDUCED + " The cohort grows from 20 to 320 in four doublings."),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "data-efficient",
            "The growing cohort needs fewer examples than the large one.",
            "For each task and algorithm, fewer examples are processed until the task's accuracy (small scale: 70 % "
            "and 60 %).",
            dynamic_efficient,
        ),
        Claim(
            "accurate",
            "It ends with an accuracy closer to the large cohort's than to the small one's.",
            "For each task and algorithm, its distance to the large cohort's final accuracy is no more than that to "
            "the small one's, or than half a point.",
            dynamic_accurate,
            required_share=0.75,
        ),
        Claim(
            "bounded",
            "It is never better than the better of the two fixed sizes.",
            "For each task and algorithm, it is at most 1 point above the better of both.",
            dynamic_bounded,
        ),
    ),
    figure=growing_panels,
)  # fmt: skip
