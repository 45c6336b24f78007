"""Figure 42: local steps against cohort size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from driftless.papers.large_cohort.measures import ACCURACY
from driftless.papers.large_cohort.settings import PAPER_TASKS, SMALL_TASKS, Task, run_settings
from driftless.reproduce.checks import Check, above, below, mostly
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.figure import Heat
from driftless.reproduce.intervals import Floats
from driftless.reproduce.outcome import Measure, Outcome, mean_of

GRID_TARGET = 0.7
GRID_ROUNDS_TO = Measure(
    f"rounds to {100 * GRID_TARGET:g} % test accuracy", lambda r: r.reach(GRID_TARGET), better="low", digits=0
)
CAPPED_ROUNDS_TO = Measure(
    "the same, all rounds where it is never reached",
    lambda r: np.minimum(r.reach(GRID_TARGET), r.of_runs(lambda run: run.budget)),
)


def step_cells(task: Task, cohorts: Sequence[int], steps: Sequence[int], more: Mapping[str, Any]) -> tuple[Cell, ...]:
    own = {**run_settings(task, "FedAvg", task.reference), "local.batch_size": 1, **more}
    del own["local.epochs"]
    return tuple(
        Cell({"cohort": cohort, "steps": number}, {**own, "run.cohort": cohort, "local.steps": number})
        for cohort in cohorts
        for number in steps
    )


def step_grid(outcome: Outcome, measure: Measure) -> tuple[list[int], list[int], list[list[Floats]]]:
    """Cohorts, steps, and the measure of each, for each seed."""
    cohorts, steps = ([int(value) for value in outcome.places(name)] for name in ("cohort", "steps"))
    return cohorts, steps, [[measure(outcome.one(cohort=c, steps=s)) for s in steps] for c in cohorts]


def step_heats(outcome: Outcome) -> list[Heat]:
    found = []
    for measure in (GRID_ROUNDS_TO, ACCURACY):
        cohorts, steps, values = step_grid(outcome, measure)
        means = [[mean_of(one) for one in row] for row in values]
        found.append(
            Heat(measure.title, "local steps", "cohort", [str(s) for s in steps], [str(c) for c in cohorts], means)
        )
    return found


def steps_speed_up(outcome: Outcome) -> Iterable[Check]:
    """Several steps, on average over their numbers but the largest, which may be too many, against one."""
    cohorts, steps, values = step_grid(outcome, CAPPED_ROUNDS_TO)
    for cohort, row in zip(cohorts, values, strict=True):
        yield below(f"M = {cohort}: rounds with {steps[1]} steps against one", row[1], row[0])


def steps_overdone(outcome: Outcome) -> Iterable[Check]:
    cohorts, steps, values = step_grid(outcome, ACCURACY)
    for cohort, row in zip(cohorts, values, strict=True):
        middle = len(steps) // 2
        what = f"M = {cohort}: accuracy with {steps[-1]} steps against {steps[middle]}, by more than 1 point"
        yield below(what, row[-1], row[middle], by=1, unit=" %")


def all_cohorts_converge(outcome: Outcome) -> Iterable[Check]:
    """Where the largest cohort reaches the accuracy in most seeds, the smallest does, and the other way round."""
    cohorts, steps, values = step_grid(outcome, GRID_ROUNDS_TO)
    for place, number_of_steps in enumerate(steps):
        few, many = (np.isfinite(values[row][place]) for row in (0, -1))
        expected = bool(np.mean(many) > 0.5)
        what = f"{number_of_steps} steps: M = {cohorts[0]} {'reaches' if expected else 'does not reach'} it"
        yield mostly(what, (few == expected).tolist(), above=0.5)


def steps_matter_more(outcome: Outcome) -> Iterable[Check]:
    _, _, values = step_grid(outcome, ACCURACY)
    table = np.asarray(values)  # [cohorts, steps, seeds]
    by_steps, by_size = np.median(np.ptp(table, axis=1), axis=0), np.median(np.ptp(table, axis=0), axis=0)
    yield above("median range of accuracy over the steps against over the cohorts", by_steps, by_size, unit=" points")


POWERS = tuple(2**i for i in range(11))
FIGURE_42 = Experiment(
    name="figure-42",
    title="Local steps against cohort size",
    where="Figure 42, appendix B.10",
    about="FedAvg on EMNIST with batches of one example: rounds to 70 % and final accuracy for 1 to 256 local steps "
    "and cohorts of 16 to 1,024. Along a diagonal a round processes equally many examples.",
    paper=Setup(step_cells(PAPER_TASKS["EMNIST"], POWERS[4:], POWERS[:9], {}), seeds=5),
    small=Setup(
        step_cells(SMALL_TASKS["Fashion-MNIST"], (16, 64, 256), (1, 4, 16, 64),
                   {"local.lr": 0.01, "run.evaluate_every": 1}),
        seeds=6,
        most_seeds=10,
        reduced="Fashion-MNIST with an MLP instead of EMNIST with a CNN, client learning rate 0.01, "
        "steps 1 to 64, cohorts of 16, 64 and 256, 100 rounds.",
    ),
    measure=ACCURACY,
    columns="steps",
    claims=(
        Claim(
            "steps-accelerate",
            "With a fixed cohort, more local steps speed up convergence.",
            "For each cohort size, two (small scale: four) steps reach 70 % in fewer rounds than one step, on average "
            "over the seeds.",
            steps_speed_up,
            paper='"can accelerate convergence" (B.10); drawn',
        ),
        Claim(
            "too-many-steps",
            "... but only up to a point: too many steps ruin the result.",
            "For each cohort size, the accuracy with the most steps is more than 1 point below that with 16.",
            steps_overdone,
            paper='"only up to a point", then training fails (B.10); drawn',
        ),
        Claim(
            "all-cohorts",
            "If a number of steps converges for one cohort size, it does for all.",
            "For each number of steps, the smallest cohort reaches 70 % in more than half of the seeds exactly if the "
            "largest does.",
            all_cohorts_converge,
            paper='"convergence occurs for all cohort sizes" (B.10); drawn',
        ),
        Claim(
            "steps-over-cohort",
            "The number of local steps matters more for the final accuracy than the cohort size.",
            "The median over cohorts of the range of accuracies over the steps exceeds the median over steps of the "
            "range over the cohorts.",
            steps_matter_more,
            paper='steps reduce it "drastically", more than the cohort (B.10); drawn',
        ),
    ),
    figure=step_heats,
)  # fmt: skip
