"""On large-cohort training: every experiment of the paper, its published numbers, and how its claims are judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftless.config.build import cohort_of, federation_of
from driftless.data.cohorts import as_schedule
from driftless.engine.stragglers import round_time
from driftless.report.curves import Run
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Number, Paper, Place, Setup
from driftless.reproduce.figure import Heat, Line, Panel, curves, sweep
from driftless.reproduce.outcome import Measure, Outcome, Result, above, below, number
from driftless.runs.directory import StoredRun

# ---- Tasks, algorithms and learning rates (section 2.1, appendix A) --------------------------------------------------

ALGORITHMS: dict[str, dict[str, Any]] = {
    "FedAvg": {"algorithm.name": "fedavg"},
    "FedAvgM": {"algorithm.name": "fedavgm", "algorithm.momentum": 0.9},
    "FedAdagrad": {"algorithm.name": "fedadagrad", "algorithm.eps": 1e-3},
    "FedAdam": {"algorithm.name": "fedadam", "algorithm.beta1": 0.9, "algorithm.beta2": 0.99, "algorithm.eps": 1e-3},
    "FedLARS": {"algorithm.name": "fedlars", "algorithm.momentum": 0.9, "algorithm.eps": 1e-3},
    "FedLamb": {"algorithm.name": "fedlamb", "algorithm.beta1": 0.9, "algorithm.beta2": 0.99, "algorithm.eps": 1e-3},
    "FedSGD": {"algorithm.name": "fedsgd"},
    "normalised FedAvg": {"algorithm.name": "normalized-fedavg"},
}
"""Table 3; the normalised variant of section 5.4 has no hyper-parameter of its own."""
STUDIED = ("FedSGD", "FedAvg", "FedAvgM", "FedAdagrad", "FedAdam", "FedLARS", "FedLamb")
"""In the order of figures 11-17 and 29-35."""
LOCAL_STEPS = STUDIED[1:]
"""Those whose clients take more than one step a round."""
COMPARED = ("FedAvg", "FedAdam", "FedAdagrad", "FedLARS", "FedLamb")
"""In figures 8, 18-24."""

LEARNING_RATES = (0.001, 0.01, 0.1, 1.0, 10.0)
"""The grid of both learning rates, 25 pairs (appendix A.4)."""
CLIPPING = {
    "server.clipping": "adaptive", "server.clipping_quantile": 0.8, "server.clipping_lr": 0.2,
    "server.clipping_initial": 1.0,
}  # fmt: skip
"""Everywhere but in figure 1 (appendix A.3)."""
NO_CLIPPING = {"server.clipping": "none"}

PAPER_DATA = ("CIFAR-100", "EMNIST", "Shakespeare", "Stack Overflow")
# Table 4, the server learning rate, and Table 5, the client learning rate; columns as PAPER_DATA.
TABLE_4 = {
    "FedAvg": (1.0, 1.0, 1.0, 1.0),
    "FedAvgM": (1.0, 1.0, 0.1, 1.0),
    "FedAdagrad": (0.01, 0.1, 0.1, 10.0),
    "FedAdam": (0.01, 0.001, 0.01, 1.0),
    "FedLARS": (0.01, 0.001, 0.01, 0.01),
    "FedLamb": (0.001, 0.01, 0.01, 0.01),
    "FedSGD": (0.1, 0.1, 1.0, 10.0),
}
TABLE_5 = {
    "FedAvg": (0.1, 0.1, 1.0, 10.0),
    "FedAvgM": (0.1, 0.1, 1.0, 10.0),
    "FedAdagrad": (0.1, 0.001, 10.0, 10.0),
    "FedAdam": (0.1, 0.1, 10.0, 10.0),
    "FedLARS": (0.1, 0.1, 10.0, 1.0),
    "FedLamb": (0.01, 0.1, 10.0, 10.0),
    "FedSGD": (1.0, 1.0, 1.0, 1.0),
}

Rates = Mapping[str, tuple[float, float]]
"""Algorithm -> (client, server) learning rate."""


@dataclass(frozen=True)
class Task:
    settings: Mapping[str, Any]
    """Data, model and batch size."""
    rounds: int
    evaluate_every: int
    cohorts: tuple[int, ...]
    reference: int
    """The cohort that the others are compared with, and that learning rates are scaled from: M = 50."""
    target: float
    """The test accuracy to which rounds, examples and time are counted."""
    few_clients: bool
    """Whether the largest cohort is most of the population: where the paper sees generalisation failures."""
    rates: Rates
    """Of the algorithms that are run on it."""

    @property
    def warm_up(self) -> int:
        """100 of 1,500 rounds."""
        return self.rounds // 15


def table_rates(place: int) -> Rates:
    return {name: (TABLE_5[name][place], TABLE_4[name][place]) for name in TABLE_4}


UP_TO_400 = (1, 10, 50, 100, 200, 400)
UP_TO_800 = (*UP_TO_400, 800)
PAPER_TASKS = {
    "CIFAR-100": Task(
        {"data.name": "cifar100", "data.clients": 500, "data.partition": "pachinko", "data.crop": 24,
         "data.normalize": "image", "model.name": "resnet-18", "local.batch_size": 20},
        1500, 10, UP_TO_400, 50, 0.3, True, table_rates(0),
    ),
    "EMNIST": Task(
        {"data.name": "femnist", "data.source": "tff", "model.name": "cnn-emnist", "local.batch_size": 20},
        1500, 10, UP_TO_800, 50, 0.7, False, table_rates(1),
    ),
    "Shakespeare": Task(
        {"data.name": "shakespeare", "data.source": "tff", "data.targets": "sequence", "data.length": 80,
         "model.name": "lstm-large-cohort", "local.batch_size": 4},
        1500, 10, UP_TO_400, 50, 0.5, True, table_rates(2),
    ),
    "Stack Overflow": Task(
        {"data.name": "stackoverflow", "data.words": 10_000, "data.length": 20, "data.limit_users": None,
         "data.max_examples_per_user": 1000, "model.name": "lstm-stackoverflow", "local.batch_size": 32},
        1500, 50, UP_TO_800, 50, 0.2, False, table_rates(3),
    ),
}  # fmt: skip
# The learning rates of the small tasks are those that `tables-4-5` found at small scale.
SMALL_ENGINE = {"engine.kind": "block", "engine.compile": "off", "run.checkpoint_every": 0}
SMALL_TASKS = {
    "Fashion-MNIST": Task(
        {"data.name": "fashion-mnist", "data.clients": 1000, "data.validation": 100, "data.partition": "dirichlet",
         "data.alpha": 0.3, "data.sizes": "lognormal", "data.sigma": 0.4, "model.name": "mlp", "local.batch_size": 10,
         **SMALL_ENGINE},
        50, 2, (5, 20, 80, 320), 20, 0.7, False,
        {"FedAvg": (0.1, 1.0), "FedAdagrad": (0.1, 0.01), "FedAdam": (0.1, 0.01),
         "FedLARS": (0.1, 0.01), "FedLamb": (0.1, 0.01), "FedSGD": (1.0, 0.1)},
    ),
    "Sent140": Task(
        {"data.name": "sent140", "data.source": "users", "data.words": 2000, "data.bag": "binary",
         "data.min_tweets": 8, "data.validation": 0.2, "model.name": "logistic", "local.batch_size": 2,
         **SMALL_ENGINE},
        150, 5, (5, 20, 80, 320), 20, 0.6, True,
        {"FedAvg": (1.0, 1.0), "FedAvgM": (0.1, 1.0), "FedAdagrad": (0.1, 0.01), "FedAdam": (0.1, 0.01),
         "FedLARS": (1.0, 0.1), "FedLamb": (1.0, 0.1), "FedSGD": (1.0, 1.0)},
    ),
}  # fmt: skip
TASKS = {**PAPER_TASKS, **SMALL_TASKS}
SMALL = (
    "Two small tasks stand in for the four of the paper. Fashion-MNIST for EMNIST: an MLP, 900 clients of about 60 "
    "examples with skewed labels (Dirichlet 0.3), batches of 10, 50 rounds, 100 more clients held out. Sent140 for the "
    "tasks with few clients: logistic regression on words, 340 real accounts of about 9 tweets, batches of 2, 150 "
    "rounds. Cohorts of 5, 20, 80 and 320 clients in place of 10 to 800, the last nearly all of Sent140's accounts; "
    "learning rates found as in the paper on a coarser grid (tables 4 and 5 below); FedAvgM on Sent140 only; two seeds."
)


def rates_of(task: Task, algorithm: str) -> tuple[float, float] | None:
    """None: not run on this task. The normalised variant has FedAvg's rates."""
    return task.rates.get("FedAvg" if algorithm == "normalised FedAvg" else algorithm)


def settings(task: Task, algorithm: str, cohort: int | str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One run: Algorithm 2, one local epoch, p_k = examples; `more` is what an experiment changes."""
    rates = rates_of(task, algorithm)
    assert rates is not None, f"{algorithm} has no learning rates for this task"
    client, server = rates
    run = {"run.rounds": task.rounds, "run.cohort": cohort, "run.evaluate_every": task.evaluate_every}
    local = {"local.epochs": 1, "local.lr": client, "server.weighting": "examples"}
    found = {**task.settings, **ALGORITHMS[algorithm], "algorithm.server_lr": server, **local, **CLIPPING, **run}
    if algorithm == "FedSGD":  # one step on all examples, which the algorithm itself demands
        for key in ("local.epochs", "local.lr", "local.batch_size"):
            del found[key]
    return {**found, **(more or {})}


def cells(
    tasks: Mapping[str, Task],
    algorithms: Sequence[str],
    cohorts: Callable[[Task], Iterable[int]] = lambda task: task.cohorts,
    more: Callable[[Task], Mapping[str, Any]] = lambda task: {},
    **at: Place,
) -> tuple[Cell, ...]:
    """Every task, algorithm and cohort: the runs that most figures share."""
    return tuple(
        Cell({"data": data, "algorithm": name, **at, "cohort": cohort}, settings(task, name, cohort, more(task)))
        for data, task in tasks.items()
        for name in algorithms
        if rates_of(task, name)
        for cohort in cohorts(task)
    )


def reference_only(task: Task) -> Iterable[int]:
    return (task.reference,)


def from_reference(task: Task) -> Iterable[int]:
    return (cohort for cohort in task.cohorts if cohort >= task.reference)


def above_reference(task: Task) -> Iterable[int]:
    return (cohort for cohort in task.cohorts if cohort > task.reference)


def small(*algorithms: str, **options: Any) -> Setup:
    return Setup(cells(SMALL_TASKS, algorithms, **options), seeds=2, reduced=SMALL)


def paper(*algorithms: str, **options: Any) -> Setup:
    return Setup(cells(PAPER_TASKS, algorithms, **options), seeds=5)


# ---- What is read off the runs ---------------------------------------------------------------------------------------

ACCURACY = Measure("test accuracy (%) at the end", lambda r: r.last(), 100)
TRAINED = Measure("training accuracy (%) at the end", lambda r: r.last("train_accuracy"), 100)


def late(result: Result, key: str) -> float:
    """The mean over the second half of the rounds."""
    return result.last(key, share=0.5).mean


def tests(result: Result) -> float:
    return ACCURACY(result).mean


def trains(result: Result) -> float:
    return TRAINED(result).mean


def tasks_of(outcome: Outcome, *, few: bool | None = None) -> list[tuple[str, Task]]:
    """The tasks that were run; `few`: only those with few (or many) clients."""
    found = [(str(data), TASKS[str(data)]) for data in outcome.places("data")]
    return [(data, task) for data, task in found if few is None or task.few_clients == few]


def by_cohort(outcome: Outcome, **at: Place) -> list[Result]:
    return sorted(outcome.pick(**at), key=lambda one: one.cell.at["cohort"])


def cohort_of_cell(result: Result) -> int:
    return int(result.cell.at["cohort"])


def failed(run: Run) -> bool:
    """The training accuracy was halved in a round, or the run could not go on."""
    return run.status == "diverged" or bool(np.nansum(run.column("failure")) > 0)


def failure_rate(result: Result) -> Number:
    return number([float(failed(run)) for run in result.runs])


FAILURES = Measure("runs with a catastrophic failure (%)", failure_rate, 100, better="low", digits=0)
ROUNDS_TO = Measure(
    "rounds to the task's accuracy", lambda r: r.reach(TASKS[str(r.cell.at["data"])].target), better="low", digits=0
)
EXAMPLES_TO = Measure(
    "examples processed until the task's accuracy",
    lambda r: r.reach(TASKS[str(r.cell.at["data"])].target, axis="examples"),
    better="low",
    digits=0,
)


# ---- Tables 4 and 5: learning rates ----------------------------------------------------------------------------------

HELD_OUT = Measure(
    "accuracy on held-out clients (%), mean of the last tenth", lambda r: r.last("validation_accuracy"), 100
)
CLIENT, SERVER = "local.lr", "algorithm.server_lr"
SMALL_GRID = {
    "FedAvg": {CLIENT: (0.01, 0.1, 1.0), SERVER: (0.1, 1.0)},
    "FedAvgM": {CLIENT: (0.1, 1.0), SERVER: (0.1, 1.0)},
    "FedAdagrad": {CLIENT: (0.1, 1.0), SERVER: (0.01, 0.1)},
    "FedAdam": {CLIENT: (0.1, 1.0), SERVER: (0.001, 0.01, 0.1)},
    "FedLARS": {CLIENT: (0.1, 1.0), SERVER: (0.001, 0.01, 0.1)},
    "FedLamb": {CLIENT: (0.1, 1.0), SERVER: (0.001, 0.01, 0.1)},
    "FedSGD": {SERVER: (0.01, 0.1, 1.0, 10.0)},
}


def tuning(
    tasks: Mapping[str, Task], grid: Callable[[str], Mapping[str, Sequence[float]]], more: Mapping[str, Any]
) -> tuple[Cell, ...]:
    return tuple(
        Cell({"data": data, "algorithm": name}, settings(task, name, task.reference, more), grid=grid(name))
        for data, task in tasks.items()
        for name in STUDIED
        if rates_of(task, name)
    )


def paper_grid(name: str) -> Mapping[str, Sequence[float]]:
    both = {CLIENT: LEARNING_RATES, SERVER: LEARNING_RATES}
    return {SERVER: LEARNING_RATES} if name == "FedSGD" else both


def server_rate(*names: str, most: float, least: float = 0.0) -> Callable[[Outcome], Iterable[Check]]:
    def checks(outcome: Outcome) -> Iterable[Check]:
        for name in names:
            for one in outcome.pick(algorithm=name):
                rate = float(one.settings.get(SERVER, math.nan))
                text = f"{one.cell.at['data']}: {name} is best with server learning rate {rate:g}"
                if CLIENT in one.settings:
                    text += f", client learning rate {one.settings[CLIENT]:g}"
                yield Check(text, least <= rate <= most)

    return checks


TABLES_4_5 = Experiment(
    name="tables-4-5",
    title="Learning rates by grid search",
    where="Tables 4 and 5, appendix A.4",
    about="Client and server learning rate of every algorithm and task, 25 pairs of powers of ten, by the accuracy on "
    "held-out clients after 1,500 rounds with a small cohort.",
    paper=Setup(tuning(PAPER_TASKS, paper_grid, {"data.validation": 0.2}), seeds=5),
    small=Setup(
        tuning(SMALL_TASKS, SMALL_GRID.__getitem__, {}),
        reduced="Fashion-MNIST (MLP) and Sent140 (logistic regression) with cohorts of 20, 50 and 150 rounds, one "
        "seed, 4 to 6 pairs around what is usual for each algorithm. What wins here is used in all other experiments.",
    ),
    measure=HELD_OUT,
    claims=(
        Claim(
            "fedavg-one",
            "FedAvg is best with server learning rate 1 in every task.",
            "In each task the best pair of FedAvg has server learning rate 1.",
            server_rate("FedAvg", least=1.0, most=1.0),
        ),
        Claim(
            "layer-wise-small",
            "Layer-wise adaptive methods need a small server learning rate, 0.01 or less.",
            "In each task the best pairs of FedLARS and FedLamb have a server learning rate of at most 0.01.",
            server_rate("FedLARS", "FedLamb", most=0.01),
        ),
    ),
)


# ---- Figure 1: catastrophic failures ---------------------------------------------------------------------------------

FAILING_RATE = 0.4
"""Of the clients at small scale; see `reduced`."""


def failures_at(outcome: Outcome, data: str, clipping: str) -> list[tuple[int, float]]:
    return [(cohort_of_cell(one), FAILURES(one).mean) for one in by_cohort(outcome, data=data, clipping=clipping)]


def more_failures(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        rates = failures_at(outcome, data, "none")
        if len(rates) > 1:
            (few, low), (many, high) = rates[0], rates[-1]
            yield above(f"{data}: failures with M = {many} against M = {few}", high, low, unit=" %")


def clipping_helps(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        for cohort, rate in failures_at(outcome, data, "adaptive"):
            yield Check(f"{data}, M = {cohort}: {rate:.0f} % of the runs fail with clipping", rate == 0)


def spike(run: Run) -> float:
    """The norm of the update in the first round that failed, or before it, over the median norm until then."""
    failures = np.flatnonzero(run.column("failure") > 0)
    if not len(failures) or failures[0] < 2:
        return math.nan
    norms = run.column("norm_update")[: failures[0] + 1]
    return float(np.nanmax(norms[-2:]) / np.nanmedian(norms[:-2])) if len(norms) > 2 else math.nan


def spikes(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.pick(clipping="none"):
        for seed, run in enumerate(one.runs):
            if not math.isnan(times := spike(run)):
                yield above(f"{one.label}, seed {seed}: norm before the failure in medians", times, 2.0)


def success_and_failure(outcome: Outcome) -> list[Panel]:
    """A run that went well beside one that did not, where there is one: accuracy and norm; and the failure rates."""
    panels = sweep(outcome, "cohort", FAILURES, line="clipping", by="data", log_x=True)
    one = max(outcome.pick(clipping="none"), key=lambda found: (FAILURES(found).mean, cohort_of_cell(found)))
    for word, wanted in (("went well", False), ("failed", True)):
        runs = [run for run in one.runs if failed(run) == wanted and len(run.rounds)][:1]
        for run in runs:
            for key, title, log in (
                ("train_accuracy", "training accuracy", False),
                ("norm_update", "norm of the mean update", True),
            ):
                line = Line("", run.rounds.tolist(), run.column(key).tolist())
                panels.append(
                    Panel(f"M = {cohort_of_cell(one)}, a run that {word}", "rounds", title, (line,), log_y=log)
                )
    return panels


def figure_1_cells() -> tuple[Cell, ...]:
    plain = cells(PAPER_TASKS, ["FedAvg"], lambda task: task.cohorts[1:], lambda task: NO_CLIPPING, clipping="none")
    clipped = cells(PAPER_TASKS, ["FedAvg"], lambda task: task.cohorts[1:], clipping="adaptive")
    published = {("EMNIST", "none", 10): 0.0, ("EMNIST", "none", 800): 80.0}
    published |= {("EMNIST", "adaptive", cohort): 0.0 for cohort in UP_TO_800[1:]}
    return tuple(with_published(cell, published) for cell in (*plain, *clipped))


def with_published(cell: Cell, published: Mapping[tuple[str, str, int], float]) -> Cell:
    found = published.get((str(cell.at["data"]), str(cell.at["clipping"]), int(cell.at["cohort"])))
    return cell if found is None else Cell(cell.at, cell.settings, Number(found))


def figure_1_small() -> tuple[Cell, ...]:
    tasks = {"Fashion-MNIST": SMALL_TASKS["Fashion-MNIST"]}
    shorter = {"run.rounds": 12, "run.evaluate_every": 4, "local.lr": FAILING_RATE}
    return tuple(
        cell
        for name, clipping in (("none", NO_CLIPPING), ("adaptive", CLIPPING))
        for cell in cells(tasks, ["FedAvg"], more=lambda task, own=clipping: {**shorter, **own}, clipping=name)
    )


FIGURE_1 = Experiment(
    name="figure-1",
    title="Catastrophic training failures",
    where="Figure 1, section 3.1",
    about="FedAvg with learning rates tuned for ten clients a round, with and without adaptive clipping. A failure is "
    "a round in which the training accuracy falls to half or less.",
    paper=Setup(figure_1_cells(), seeds=5),
    small=Setup(
        figure_1_small(),
        seeds=3,
        reduced="Fashion-MNIST with an MLP and 900 clients instead of EMNIST; cohorts of 5, 20, 80 and 320; 12 "
        "rounds; three seeds. With the tuned client learning rate of 0.1 nothing failed in a trial. The rate is 0.4, "
        "the largest of 0.1, 0.3, 0.4, 0.5, 0.6 and 1 with which five clients a round still learned.",
    ),
    measure=FAILURES,
    columns="cohort",
    claims=(
        Claim(
            "more-with-cohort",
            "Without clipping, failures become more frequent with larger cohorts.",
            "In each task the share of failing runs is higher with the largest cohort than with the smallest.",
            more_failures,
        ),
        Claim(
            "spike",
            "A failure comes with a spike in the norm of the mean update.",
            "In each run that fails, the norm in the failing round or the one before is above twice the median until "
            "then.",
            spikes,
            whole=0.8,
        ),
        Claim(
            "clipping",
            "With adaptive clipping no run fails, whatever the cohort size.",
            "No run with clipping has a failure.",
            clipping_helps,
        ),
    ),
    figure=success_and_failure,
)  # fmt: skip


# ---- Figure 2 (11-17): diminishing returns ---------------------------------------------------------------------------


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


def diminishing(outcome: Outcome) -> Iterable[Check]:
    """The first cohorts bring more than the last ones."""
    for data, task in tasks_of(outcome):
        for name in outcome.places("algorithm", data=data):
            found = {cohort_of_cell(one): tests(one) for one in by_cohort(outcome, data=data, algorithm=name)}
            first, last = min(found), max(found)
            early, later = found[task.reference] - found[first], found[last] - found[task.reference]
            yield above(
                f"{data}, {name}: gain from M = {first} to {task.reference}, then to {last}",
                early,
                later,
                unit=" points",
            )


def saturated(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        for name in ("FedAvg", "FedSGD"):
            start = tests(outcome.one(data=data, algorithm=name, cohort=task.reference))
            end = tests(by_cohort(outcome, data=data, algorithm=name)[-1])
            yield Check(
                f"{data}, {name}: {start:.2f} % with M = {task.reference}, {end:.2f} % with the most", end - start <= 2
            )


FIGURE_2 = Experiment(
    name="figure-2",
    title="Diminishing returns of larger cohorts",
    where="Figures 2 and 11-17, section 3.2 and B.1",
    about="Test accuracy over the rounds for growing cohorts; the main text shows FedAvg and FedSGD, the appendix all "
    "seven algorithms.",
    paper=paper(*STUDIED),
    small=small(*STUDIED),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "diminishing",
            "Convergence improves with the cohort, but less and less.",
            "For each task and algorithm, the gain in accuracy from the smallest cohort to M = 50 (small scale: from "
            "5 to 20) exceeds the gain from there to the largest.",
            diminishing,
            whole=0.8,
        ),
        Claim(
            "saturated",
            "For FedAvg and FedSGD, clients beyond some 50 a round change little or nothing.",
            "In each task, the accuracy with the largest cohort is at most 2 points above that with M = 50 (small "
            "scale: 20).",
            saturated,
            whole=0.75,
        ),
    ),
    figure=curve_panels("FedAvg", "FedSGD", *STUDIED[2:]),
)  # fmt: skip


# ---- Figure 3: generalisation ----------------------------------------------------------------------------------------


def train_and_test(outcome: Outcome) -> list[Panel]:
    return [
        *sweep(outcome, "cohort", TRAINED, by="data", log_x=True),
        *sweep(outcome, "cohort", ACCURACY, by="data", log_x=True),
    ]


def loses(outcome: Outcome) -> Iterable[Check]:
    """The largest cohort trains as well as the reference and tests worse."""
    for data, task in tasks_of(outcome, few=True):
        start = outcome.one(data=data, algorithm="FedAdam", cohort=task.reference)
        end = by_cohort(outcome, data=data, algorithm="FedAdam")[-1]
        what = f"{data}, FedAdam, M = {cohort_of_cell(end)} against {task.reference}"
        yield above(f"{what}: training accuracy, up to 3 points", trains(end), trains(start), by=-3, unit=" %")
        yield below(f"{what}: test accuracy", tests(end), tests(start), unit=" %")


def keeps(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome, few=False):
        for name in outcome.places("algorithm", data=data):
            start = tests(outcome.one(data=data, algorithm=name, cohort=task.reference))
            end = tests(by_cohort(outcome, data=data, algorithm=name)[-1])
            yield above(
                f"{data}, {name}: most clients against M = {task.reference}, up to 1 point",
                end,
                start,
                by=-1,
                unit=" %",
            )


def depends(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome, few=True):
        changes = {}
        for name in outcome.places("algorithm", data=data):
            start = outcome.one(data=data, algorithm=name, cohort=task.reference)
            changes[name] = tests(by_cohort(outcome, data=data, algorithm=name)[-1]) - tests(start)
        text = ", ".join(f"{name} {change:+.2f}" for name, change in changes.items())
        yield Check(
            f"{data}, change of test accuracy in points: {text}", min(changes.values()) < 0 <= max(changes.values())
        )


FIGURE_3_ALGORITHMS = ("FedAvg", "FedAdam", "FedAdagrad")
FIGURE_3 = Experiment(
    name="figure-3",
    title="Generalisation failures of large cohorts",
    where="Figure 3, section 3.3",
    about="Accuracy in training and on the test set at the end, over the size of the cohort. Here training accuracy "
    "is that of the clients' batches during local training.",
    paper=paper(*FIGURE_3_ALGORITHMS),
    small=small(*FIGURE_3_ALGORITHMS),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "worse-with-few-clients",
            "Where the cohort is a large part of few clients, FedAdam trains equally well with more clients a round "
            "but generalises worse.",
            "In each task with few clients (CIFAR-100, Shakespeare; small scale: Sent140), the largest cohort against "
            "M = 50 (20): training accuracy no more than 3 points lower, test accuracy lower.",
            loses,
        ),
        Claim(
            "not-with-many-clients",
            "With many clients in the population there is no such failure.",
            "In each task with many clients (EMNIST, Stack Overflow; small scale: Fashion-MNIST) and each algorithm, "
            "the largest cohort's test accuracy is at most 1 point below that of M = 50 (20).",
            keeps,
        ),
        Claim(
            "depends-on-optimiser",
            "Whether it happens depends on the optimiser.",
            "In each task with few clients, test accuracy falls from M = 50 (20) to the largest cohort for at least "
            "one of the three algorithms and does not for at least one.",
            depends,
        ),
    ),
    figure=train_and_test,
)  # fmt: skip


# ---- Figure 4 and tables 6-9: fairness -------------------------------------------------------------------------------

PERCENTILES = (5, 25, 50, 75, 95)
# Accuracy of FedAdam in per cent, mean and deviation: a row a percentile, a column a cohort size from 10 on.
TABLES_6_TO_9: dict[str, tuple[tuple[tuple[float, float], ...], ...]] = {
    "CIFAR-100": (
        ((27.0, 3.3), (32.2, 1.1), (30.6, 0.9), (29.6, 1.1), (29.0, 1.2)),
        ((35.3, 1.5), (39.0, 0.7), (37.5, 0.9), (37.2, 1.1), (36.4, 1.1)),
        ((41.1, 1.3), (44.5, 0.5), (43.1, 0.7), (42.4, 0.5), (41.6, 0.7)),
        ((47.5, 1.1), (50.1, 0.7), (48.4, 0.5), (47.2, 0.4), (47.0, 1.0)),
        ((54.2, 1.5), (55.6, 1.5), (54.6, 1.5), (53.8, 1.3), (53.6, 1.5)),
    ),
    "EMNIST": (
        ((61.9, 2.1), (62.5, 2.4), (64.3, 1.2), (63.8, 1.4), (64.3, 1.0), (65.0, 0.9)),
        ((77.3, 0.7), (77.4, 1.4), (77.9, 0.4), (78.2, 0.4), (78.6, 0.5), (78.7, 0.3)),
        ((84.5, 0.5), (85.4, 0.5), (85.9, 0.2), (85.9, 0.2), (86.1, 0.2), (86.2, 0.1)),
        ((91.2, 0.2), (92.0, 0.1), (92.0, 0.2), (92.3, 0.1), (92.3, 0.1), (92.3, 0.0)),
        ((100.0, 0.0), (100.0, 0.0), (100.0, 0.0), (100.0, 0.0), (100.0, 0.0), (100.0, 0.0)),
    ),
    "Shakespeare": (
        ((39.9, 0.8), (39.2, 1.8), (39.4, 1.6), (37.8, 0.7), (38.6, 1.2)),
        ((54.9, 0.1), (55.0, 0.2), (54.9, 0.2), (54.9, 0.1), (54.9, 0.2)),
        ((58.3, 0.2), (58.5, 0.2), (58.5, 0.2), (58.3, 0.1), (58.4, 0.1)),
        ((61.8, 0.2), (62.4, 0.2), (62.2, 0.2), (62.1, 0.2), (62.1, 0.3)),
        ((70.9, 0.6), (71.2, 0.6), (71.2, 0.4), (71.1, 0.2), (71.1, 0.2)),
    ),
    "Stack Overflow": (
        ((16.7, 0.2), (18.7, 0.2), (19.1, 0.2), (19.5, 0.1), (19.8, 0.1), (19.9, 0.1)),
        ((21.0, 0.3), (23.2, 0.2), (23.6, 0.2), (24.1, 0.1), (24.4, 0.1), (24.5, 0.1)),
        ((23.5, 0.3), (25.8, 0.2), (26.3, 0.3), (26.7, 0.1), (27.0, 0.1), (27.2, 0.1)),
        ((26.1, 0.3), (28.4, 0.2), (29.0, 0.3), (29.4, 0.1), (29.7, 0.1), (29.9, 0.1)),
        ((30.8, 0.3), (33.2, 0.2), (33.7, 0.4), (34.2, 0.1), (34.6, 0.1), (34.8, 0.1)),
    ),
}
PERCENTILE = Measure(
    "accuracy (%) at a percentile of the clients",
    lambda r: r.final(f"test_p{r.cell.at['percentile']}"),
    100,
)


def fairness_cells() -> tuple[Cell, ...]:
    """CIFAR-100's test images belong to no clients here: 100 of the 500 clients are held out in their place."""
    held = {"data.validation": 100}
    return tuple(
        Cell(
            {"data": data, "percentile": percentile, "cohort": cohort},
            settings(PAPER_TASKS[data], "FedAdam", cohort, held if data == "CIFAR-100" else {}),
            Number(*numbers),
        )
        for data, rows in TABLES_6_TO_9.items()
        for percentile, row in zip(PERCENTILES, rows, strict=True)
        for cohort, numbers in zip(PAPER_TASKS[data].cohorts[1:], row, strict=True)
    )


def fairness_small() -> tuple[Cell, ...]:
    data = "Fashion-MNIST"
    return tuple(
        Cell(
            {"data": data, "percentile": percentile, "cohort": cohort},
            settings(SMALL_TASKS[data], "FedAdam", cohort),
        )
        for percentile in PERCENTILES
        for cohort in SMALL_TASKS[data].cohorts
    )


def percentiles(outcome: Outcome, data: str, cohort: int) -> list[float]:
    return [outcome.measured(outcome.one(data=data, percentile=p, cohort=cohort)) for p in PERCENTILES]


def ends(outcome: Outcome, data: str) -> tuple[int, int]:
    cohorts = [int(cohort) for cohort in outcome.places("cohort", data=data)]
    return min(cohorts), max(cohorts)


def alike(outcome: Outcome) -> Iterable[Check]:
    """All percentiles move as the median does, up to a point of noise."""
    for data, task in tasks_of(outcome):
        for start, end in ((ends(outcome, data)[0], task.reference), (task.reference, ends(outcome, data)[1])):
            moves = np.subtract(percentiles(outcome, data, end), percentiles(outcome, data, start))
            sign = math.copysign(1.0, moves[2])
            for p, move in zip(PERCENTILES, moves, strict=True):
                text = f"{data}, M = {start} to {end}: percentile {p} {move:+.2f} points, median {moves[2]:+.2f}"
                if p != 50:
                    yield Check(text, bool(sign * move >= -1))


def same_spread(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        before, after = (percentiles(outcome, data, cohort) for cohort in (task.reference, ends(outcome, data)[1]))
        start, end = before[3] - before[1], after[3] - after[1]
        yield Check(
            f"{data}: 75th minus 25th percentile {start:.2f}, then {end:.2f} points", bool(abs(end - start) <= 2)
        )


FIGURE_4 = Experiment(
    name="figure-4",
    title="Fairness: percentiles of accuracy over test clients",
    where="Figure 4 and tables 6-9, section 3.4 and B.4",
    about="Accuracy of FedAdam's model on each test client, at five percentiles of the clients, by cohort size.",
    paper=Setup(fairness_cells(), seeds=5),
    small=Setup(
        fairness_small(),
        seeds=2,
        reduced="Fashion-MNIST with an MLP; the test clients are 100 clients with labels as skewed as those that "
        "train; cohorts of 5 to 320, 50 rounds, two seeds. The numbers of the paper's tables are kept with the "
        "paper's scale.",
    ),
    measure=PERCENTILE,
    columns="cohort",
    claims=(
        Claim(
            "alike",
            "The cohort size changes all percentiles in the same direction.",
            "From the smallest cohort to M = 50 (small scale: 20) and from there to the largest, each percentile "
            "moves as the median does, or against it by at most 1 point.",
            alike,
            whole=0.9,
        ),
        Claim(
            "same-spread",
            "Beyond some size, larger cohorts do not narrow the spread between clients.",
            "From M = 50 (20) to the largest cohort, the distance between the 75th and the 25th percentile changes by "
            "at most 2 points.",
            same_spread,
        ),
    ),
    figure=lambda outcome: sweep(outcome, "cohort", PERCENTILE, line="percentile", by="data", log_x=True),
)  # fmt: skip


# ---- Figure 5: data efficiency ---------------------------------------------------------------------------------------


def over(outcome: Outcome, axis: str, algorithm: str) -> list[Panel]:
    """Test accuracy over the rounds or the examples, which differ by orders of magnitude between cohorts."""
    drawn = curves(outcome, "test_accuracy", by="data", axis=axis, algorithm=algorithm)
    return [replace(panel, log_x=axis == "examples") for panel in drawn]


def rounds_and_examples(outcome: Outcome) -> list[Panel]:
    return [*over(outcome, "rounds", algorithm="FedAdam"), *over(outcome, "examples", algorithm="FedAdam")]


def costs_by_cohort(outcome: Outcome, measure: Measure, name: str) -> Iterable[tuple[str, int, float, int, float]]:
    """Neighbouring cohort sizes and what each needs for the target."""
    for data, _ in tasks_of(outcome):
        found = by_cohort(outcome, data=data, algorithm=name)
        for one, other in pairwise(found):
            yield data, cohort_of_cell(one), measure(one).mean, cohort_of_cell(other), measure(other).mean


def fewer_rounds(outcome: Outcome) -> Iterable[Check]:
    for data, few, one, many, other in costs_by_cohort(outcome, ROUNDS_TO, "FedAdam"):
        text = f"{data}, to {100 * TASKS[data].target:g} %: {other:g} rounds with M = {many}, {one:g} with M = {few}"
        yield Check(text, other <= one and math.isfinite(other))


def more_examples(outcome: Outcome) -> Iterable[Check]:
    for data, few, one, many, other in costs_by_cohort(outcome, EXAMPLES_TO, "FedAdam"):
        if math.isfinite(one) or math.isfinite(other):
            yield above(f"{data}, examples to {100 * TASKS[data].target:g} %: M = {many} against {few}", other, one)


FIGURE_5 = Experiment(
    name="figure-5",
    title="Fewer rounds, more examples",
    where="Figure 5, section 3.5",
    about="Test accuracy of FedAdam over the rounds and over the examples that all clients have processed.",
    paper=paper("FedAdam"),
    small=small("FedAdam"),
    measure=EXAMPLES_TO,
    columns="cohort",
    claims=(
        Claim(
            "fewer-rounds",
            "FedAdam needs fewer rounds to a given accuracy with larger cohorts.",
            "From each cohort size to the next the rounds to the task's accuracy (small scale: 70 % and 60 %) do not "
            "increase.",
            fewer_rounds,
            whole=0.8,
        ),
        Claim(
            "more-examples",
            "Large cohorts process more examples for the same accuracy.",
            "From each cohort size to the next more examples are needed to the task's accuracy.",
            more_examples,
            whole=0.8,
        ),
    ),
    figure=rounds_and_examples,
)  # fmt: skip


# ---- Figures 20-24: speed-ups ----------------------------------------------------------------------------------------


def sublinear(outcome: Outcome) -> Iterable[Check]:
    """Rounds that the reference needs, over those of the largest cohort; linear would be the ratio of the cohorts."""
    for data, task in tasks_of(outcome):
        for name in outcome.places("algorithm", data=data):
            start = outcome.one(data=data, algorithm=name, cohort=task.reference)
            end = by_cohort(outcome, data=data, algorithm=name)[-1]
            one, other = ROUNDS_TO(start).mean, ROUNDS_TO(end).mean
            if math.isfinite(one) and math.isfinite(other):
                ratio = cohort_of_cell(end) / task.reference
                yield below(f"{data}, {name}: speed-up against the ratio of the cohorts", one / other, ratio)


def mostly_faster(outcome: Outcome) -> Iterable[Check]:
    for name in outcome.places("algorithm"):
        for data, few, one, many, other in costs_by_cohort(outcome, ROUNDS_TO, str(name)):
            if math.isfinite(one) or math.isfinite(other):
                yield Check(f"{data}, {name}: {other:g} rounds with M = {many}, {one:g} with M = {few}", other <= one)


FIGURES_20_24 = Experiment(
    name="figures-20-24",
    title="How much faster larger cohorts are",
    where="Figures 20-24, appendix B.3",
    about="Rounds until a test accuracy is reached, over the cohort size, for five algorithms.",
    paper=paper(*COMPARED),
    small=small(*COMPARED),
    measure=ROUNDS_TO,
    columns="cohort",
    claims=(
        Claim(
            "sublinear",
            "The speed-up is not linear in the cohort size.",
            "For each task and algorithm, the rounds of M = 50 (small scale: 20) over those of the largest cohort are "
            "less than the ratio of the two cohort sizes.",
            sublinear,
        ),
        Claim(
            "faster",
            "A larger cohort nearly always needs fewer rounds.",
            "For each task and algorithm, from each cohort size to the next the rounds to the task's accuracy do not "
            "increase.",
            mostly_faster,
            whole=0.8,
        ),
    ),
    figure=lambda outcome: sweep(outcome, "cohort", ROUNDS_TO, by="data", log_x=True),
)  # fmt: skip


# ---- Figure 6: norms and cosines -------------------------------------------------------------------------------------


def predicted(outcome: Outcome, data: str, task: Task) -> list[Panel]:
    """FedAvg's norms, dashed beside them what the inverse square root of the cohort predicts from the reference."""
    base = outcome.one(data=data, algorithm="FedAvg", cohort=task.reference)
    if not any("norm_update" in run.metrics for run in base.runs):
        return []
    x, norm, _ = base.curve("norm_update")
    lines = []
    for one in by_cohort(outcome, data=data, algorithm="FedAvg"):
        cohort = cohort_of_cell(one)
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
    panels = curve_panels("FedSGD", "FedAvg", key="norm_update", log=True)(outcome)
    for data, task in tasks_of(outcome):
        panels += predicted(outcome, data, task)
    return panels + cosine_panels(outcome)


def cosine_panels(outcome: Outcome) -> list[Panel]:
    panels = []
    for data, task in tasks_of(outcome):
        drawn = curves(outcome, "cosine", by="data", data=data, cohort=task.reference)
        panels += [replace(panel, title=f"{data}, M = {task.reference}") for panel in drawn]
    return panels


def stratified(*algorithms: str) -> Callable[[Outcome], Iterable[Check]]:
    def checks(outcome: Outcome) -> Iterable[Check]:
        for data, _ in tasks_of(outcome):
            for name in algorithms:
                for one, other in pairwise(by_cohort(outcome, data=data, algorithm=name)):
                    what = f"{data}, {name}: norm with M = {cohort_of_cell(other)} against M = {cohort_of_cell(one)}"
                    yield below(what, late(other, "norm_update"), late(one, "norm_update"))

    return checks


def shrinks(outcome: Outcome, data: str, task: Task, name: str) -> tuple[int, float]:
    """The largest cohort, and its norm over that of the reference."""
    start = outcome.one(data=data, algorithm=name, cohort=task.reference)
    end = by_cohort(outcome, data=data, algorithm=name)[-1]
    return cohort_of_cell(end), late(end, "norm_update") / late(start, "norm_update")


def inverse_root(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        start = late(outcome.one(data=data, algorithm="FedAvg", cohort=task.reference), "norm_update")
        for one in by_cohort(outcome, data=data, algorithm="FedAvg"):
            if (cohort := cohort_of_cell(one)) > task.reference:
                seen, expected = late(one, "norm_update") / start, math.sqrt(task.reference / cohort)
                text = f"{data}, norm with M = {cohort} over M = {task.reference}: {seen:.3f}, predicted {expected:.3f}"
                yield Check(text, bool(abs(seen / expected - 1) <= 0.25))


def fedsgd_shrinks_less(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        for name in outcome.places("algorithm", data=data):
            if name != "FedSGD":
                cohort, single = shrinks(outcome, data, task, "FedSGD")
                _, several = shrinks(outcome, data, task, str(name))
                yield above(
                    f"{data}, norm with M = {cohort} over M = {task.reference}: FedSGD against {name}", single, several
                )


def orthogonal(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        cosine = late(outcome.one(data=data, algorithm="FedAvg", cohort=task.reference), "cosine")
        yield Check(f"{data}, FedAvg: mean cosine {cosine:.4f} in the second half", bool(abs(cosine) <= 0.05))


def middle(result: Result, key: str) -> float:
    """The mean over the middle third of the rounds."""
    return number([float(v[len(v) // 3 : -(len(v) // 3) or None].mean()) for v in result.each(key) if len(v)]).mean


def less_orthogonal(outcome: Outcome) -> Iterable[Check]:
    for data, task in tasks_of(outcome):
        one, other = (
            middle(outcome.one(data=data, algorithm=name, cohort=task.reference), "cosine")
            for name in ("FedSGD", "FedAvg")
        )
        yield above(f"{data}, cosine in the middle third: FedSGD against FedAvg", one, other)


LATE_NORM = Measure("norm of the mean update, second half", lambda r: r.last("norm_update", 0.5), digits=4)
STRATIFIED_RULE = "From each cohort size to the next, the mean norm over the second half of the rounds falls."
FIGURE_6 = Experiment(
    name="figure-6",
    title="Norms of the mean update and the inverse square root rule",
    where="Figure 6, section 4",
    about="Norm of the mean client update for FedSGD and FedAvg; the norm that an inverse square root of the cohort "
    "size predicts; and the mean cosine between the updates of a cohort.",
    paper=paper("FedSGD", "FedAvg"),
    small=small("FedSGD", "FedAvg"),
    measure=LATE_NORM,
    columns="cohort",
    claims=(
        Claim("stratified", "For FedAvg larger cohorts have smaller norms.", STRATIFIED_RULE, stratified("FedAvg")),
        Claim(
            "inverse-root",
            "The norm of FedAvg's mean update falls with the inverse square root of the cohort size.",
            "For each larger cohort, the norm over that of M = 50 (small scale: 20), means of the second half, is "
            "within 25 % of the square root of the ratio of the cohorts.",
            inverse_root,
        ),
        Claim(
            "fedsgd-less",
            "For FedSGD the norm falls only slightly with the cohort size.",
            "From M = 50 (20) to the largest cohort the norm shrinks less for FedSGD than for FedAvg.",
            fedsgd_shrinks_less,
        ),
        Claim(
            "orthogonal",
            "The updates of FedAvg's clients are almost orthogonal.",
            "With M = 50 (20) the mean cosine over the second half of the rounds is at most 0.05 in size.",
            orthogonal,
        ),
    ),
    figure=norms_and_cosines,
)  # fmt: skip

FIGURES_29_35 = Experiment(
    name="figures-29-35",
    title="Norms of the mean update of all algorithms",
    where="Figures 29-35, appendix B.6",
    about="As figure 6, for seven algorithms.",
    paper=paper(*STUDIED),
    small=small(*STUDIED),
    measure=LATE_NORM,
    columns="cohort",
    claims=(
        Claim(
            "stratified",
            "With local training the norm is ordered by the cohort size, whatever the server's optimiser; FedAdagrad "
            "on EMNIST is the exception.",
            STRATIFIED_RULE,
            stratified(*LOCAL_STEPS),
            whole=0.9,
        ),
        Claim(
            "fedsgd-overlaps",
            "FedSGD differs from all others: its norms overlap across cohort sizes.",
            "From M = 50 (small scale: 20) to the largest cohort the norm shrinks less for FedSGD than for each other "
            "algorithm.",
            fedsgd_shrinks_less,
            whole=0.8,
        ),
    ),
    figure=curve_panels(*STUDIED, key="norm_update", log=True),
)  # fmt: skip

FIGURE_36 = Experiment(
    name="figure-36",
    title="Cosine between the updates of clients",
    where="Figure 36, appendix B.6.1",
    about="Mean cosine between the updates of all pairs of clients of a cohort of 50, FedAvg and FedSGD.",
    paper=paper("FedAvg", "FedSGD", cohorts=reference_only),
    small=small("FedAvg", "FedSGD", cohorts=reference_only),
    measure=Measure("mean cosine, second half of the rounds", lambda r: r.last("cosine", 0.5), better="low", digits=4),
    claims=(
        Claim(
            "fedavg-zero",
            "After few rounds the cosine is close to zero for FedAvg.",
            "In each task the mean over the second half of the rounds is at most 0.05 in size.",
            orthogonal,
        ),
        Claim(
            "fedsgd-larger",
            "For FedSGD it is not nearly as small, above all in intermediate rounds.",
            "In each task FedSGD's mean over the middle third of the rounds exceeds FedAvg's.",
            less_orthogonal,
        ),
    ),
    figure=cosine_panels,
)


# ---- Figures 7, 37, 38: learning-rate scaling ------------------------------------------------------------------------


def scaled(rule: str) -> Callable[[Task], Mapping[str, Any]]:
    """Warm-up from zero, as appendix B.7 says; section 5.1 starts it from the unscaled rate."""
    return lambda task: {"server.lr_scaling": rule, "server.reference_cohort": task.reference,
                         "server.warmup_rounds": task.warm_up, "server.warmup_from": "zero"}  # fmt: skip


def scaling_cells(tasks: Mapping[str, Task]) -> tuple[Cell, ...]:
    return (
        *cells(tasks, ["FedAvg"], from_reference, scaling="none"),
        *cells(tasks, ["FedAvg"], above_reference, scaled("sqrt"), scaling="square root"),
    )


def scaled_pairs(outcome: Outcome, few: bool | None = None) -> Iterable[tuple[str, Result, Result]]:
    """What is compared, the scaled and the unscaled run."""
    for data, _ in tasks_of(outcome, few=few):
        for one in by_cohort(outcome, data=data, scaling="square root"):
            plain = outcome.one(data=data, scaling="none", cohort=cohort_of_cell(one))
            yield f"{data}, M = {cohort_of_cell(one)}: scaled against not", one, plain


def scaling_trains(outcome: Outcome) -> Iterable[Check]:
    for what, one, plain in scaled_pairs(outcome, few=True):
        yield above(f"{what}, training accuracy", trains(one), trains(plain), unit=" %")


def scaling_minor(outcome: Outcome) -> Iterable[Check]:
    for what, one, plain in scaled_pairs(outcome, few=False):
        yield below(f"{what}, training accuracy, up to 1 point", trains(one), trains(plain), by=-1, unit=" %")


def scaling_mixed(outcome: Outcome) -> Iterable[Check]:
    changes = {what.partition(":")[0]: tests(one) - tests(plain) for what, one, plain in scaled_pairs(outcome)}
    text = "; ".join(f"{what} {change:+.2f}" for what, change in changes.items())
    yield Check(f"change of test accuracy in points: {text}", min(changes.values()) < 0 < max(changes.values()))


def never_fails(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.pick(scaling="square root"):
        rate = FAILURES(one).mean
        yield Check(f"{one.label}: {rate:.0f} % of the runs fail", rate == 0)


def scaling_panels(line: str) -> Callable[[Outcome], list[Panel]]:
    def panels(outcome: Outcome) -> list[Panel]:
        return [panel for measure in (TRAINED, ACCURACY) for panel in
                sweep(outcome, "cohort", measure, line=line, by="data", log_x=True)]  # fmt: skip

    return panels


FIGURE_7 = Experiment(
    name="figure-7",
    title="Square root scaling of the server learning rate",
    where="Figures 7 and 38, section 5.1 and B.7",
    about="FedAvg with a server learning rate that grows with the square root of the cohort size from M = 50 on, "
    "after a linear warm-up of 100 rounds, against the same rate for all cohorts.",
    paper=Setup(scaling_cells(PAPER_TASKS), seeds=5),
    small=Setup(scaling_cells(SMALL_TASKS), 2, SMALL + " Warm-up over a fifteenth of the rounds, as there."),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "no-failures",
            "Square root scaling with clipping causes no catastrophic failures.",
            "No run with square root scaling has a round in which the training accuracy is halved.",
            never_fails,
        ),
        Claim(
            "trains-better",
            "In the tasks with few clients it improves the training accuracy.",
            "For each larger cohort in CIFAR-100 and Shakespeare (small scale: Sent140), training accuracy is higher "
            "with scaling.",
            scaling_trains,
        ),
        Claim(
            "minor-elsewhere",
            "In the tasks with many clients it brings little, or harms.",
            "For each larger cohort in EMNIST and Stack Overflow (small scale: Fashion-MNIST), training accuracy "
            "rises by less than 1 point.",
            scaling_minor,
        ),
        Claim(
            "mixed",
            "Over all tasks and cohort sizes the effect on test accuracy is mixed.",
            "There are both a task and cohort size where test accuracy rises with scaling and one where it falls.",
            scaling_mixed,
        ),
    ),
    figure=scaling_panels("scaling"),
)  # fmt: skip


def linear_cells(tasks: Mapping[str, Task], published: Mapping[int, float]) -> tuple[Cell, ...]:
    found = cells(tasks, ["FedAvg"], from_reference, scaled("linear"), scaling="linear")
    return tuple(
        Cell(cell.at, cell.settings, Number(published[c]) if (c := int(cell.at["cohort"])) in published else None)
        for cell in found
    )


def linear_fails(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        found = by_cohort(outcome, data=data)
        first, last = FAILURES(found[0]).mean, FAILURES(found[-1]).mean
        yield Check(f"{data}: {first:.0f} % of the runs fail with M = {cohort_of_cell(found[0])}", first == 0)
        yield Check(f"{data}: {last:.0f} % of the runs fail with M = {cohort_of_cell(found[-1])}", last == 100)


FIGURE_37 = Experiment(
    name="figure-37",
    title="Linear scaling of the server learning rate",
    where="Figure 37, appendix B.7",
    about="FedAvg on EMNIST with a server learning rate proportional to the cohort size from M = 50 on, with warm-up "
    "and adaptive clipping.",
    paper=Setup(linear_cells({"EMNIST": PAPER_TASKS["EMNIST"]}, {50: 0, 100: 0, 200: 20, 400: 100, 800: 100}), seeds=5),
    small=Setup(linear_cells(SMALL_TASKS, {}), seeds=2, reduced=SMALL),
    measure=FAILURES,
    columns="cohort",
    claims=(
        Claim(
            "fails",
            "Linear scaling is too aggressive: with the largest cohorts every run fails, in spite of clipping.",
            "In each task no run fails with the reference cohort, M = 50 (small scale: 20), and all fail with the "
            "largest.",
            linear_fails,
        ),
    ),
    figure=lambda outcome: curves(outcome, "test_accuracy", by="data"),
)


# ---- Figure 8 (18, 19): layer-wise adaptivity ------------------------------------------------------------------------


def at_largest(outcome: Outcome, data: str) -> dict[str, float]:
    names = outcome.places("algorithm", data=data)
    return {str(name): tests(by_cohort(outcome, data=data, algorithm=name)[-1]) for name in names}


def lamb_like_adam(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        found = at_largest(outcome, data)
        text = f"{data}, largest cohort: FedLamb {found['FedLamb']:.2f} %, FedAdam {found['FedAdam']:.2f} %"
        yield Check(text, bool(abs(found["FedLamb"] - found["FedAdam"]) <= 3))


LARS_FALLS_BEHIND = ("EMNIST", "Shakespeare", "Fashion-MNIST")


def lars_mixed(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        found = at_largest(outcome, data)
        lars = found.pop("FedLARS")
        behind = max(found.values()) - lars
        text = f"{data}, largest cohort: FedLARS {behind:+.2f} points behind the best other"
        if data in LARS_FALLS_BEHIND:
            yield Check(text, bool(behind > 2))
        elif data == "CIFAR-100":
            yield Check(text, bool(behind <= 2))


def not_universal(outcome: Outcome) -> Iterable[Check]:
    found = {data: at_largest(outcome, data) for data, _ in tasks_of(outcome)}
    best = {data: max(accuracies, key=accuracies.__getitem__) for data, accuracies in found.items()}
    text = ", ".join(f"{data} {name}" for data, name in best.items())
    yield Check(f"best with the largest cohort: {text}", not set(best.values()) <= {"FedLARS", "FedLamb"})


FIGURE_8 = Experiment(
    name="figure-8",
    title="Layer-wise adaptive servers: FedLARS and FedLamb",
    where="Figures 8 and 18-19, section 5.2 and B.2",
    about="Accuracy of five algorithms at the end, over the cohort size.",
    paper=paper(*COMPARED),
    small=small(*COMPARED),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "lamb-like-adam",
            "With large cohorts FedLamb is about as accurate as FedAdam.",
            "In each task the test accuracies with the largest cohort are within 3 points of each other.",
            lamb_like_adam,
        ),
        Claim(
            "lars-mixed",
            "FedLARS does well on CIFAR-100 but not on EMNIST and Shakespeare.",
            "With the largest cohort FedLARS is more than 2 points behind the best other algorithm on EMNIST and "
            "Shakespeare (small scale: Fashion-MNIST) and at most 2 points behind on CIFAR-100.",
            lars_mixed,
        ),
        Claim(
            "not-universal",
            "Layer-wise adaptive methods are not better everywhere.",
            "With the largest cohort neither FedLARS nor FedLamb is the best in at least one task.",
            not_universal,
        ),
    ),
    figure=train_and_test,
)  # fmt: skip


# ---- Figure 9 (39, 40): dynamic cohorts ------------------------------------------------------------------------------


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
                found.append(Cell(at, settings(task, name, cohort)))
    return tuple(found)


def trios(outcome: Outcome) -> Iterable[tuple[str, Result, Result, Result]]:
    for data, _ in tasks_of(outcome):
        for name in outcome.places("algorithm", data=data):
            few, growing, many = (
                outcome.one(data=data, algorithm=name, cohort=kind) for kind in ("small", "doubling", "large")
            )
            yield f"{data}, {name}", few, growing, many


def dynamic_efficient(outcome: Outcome) -> Iterable[Check]:
    for what, _, growing, many in trios(outcome):
        yield below(
            f"{what}: examples to the task's accuracy, doubling against large",
            EXAMPLES_TO(growing).mean,
            EXAMPLES_TO(many).mean,
        )


def dynamic_accurate(outcome: Outcome) -> Iterable[Check]:
    for what, few, growing, many in trios(outcome):
        low, own, high = tests(few), tests(growing), tests(many)
        closer = abs(own - high) <= max(abs(own - low), 0.5)
        yield Check(f"{what}: small {low:.2f} %, doubling {own:.2f} %, large {high:.2f} %", bool(closer))


def dynamic_bounded(outcome: Outcome) -> Iterable[Check]:
    for what, few, growing, many in trios(outcome):
        yield below(
            f"{what}: doubling against the better fixed size, up to 1 point",
            tests(growing),
            max(tests(few), tests(many)),
            by=-1,
            unit=" %",
        )


def growing_panels(outcome: Outcome) -> list[Panel]:
    return [
        replace(panel, title=f"{name}, {panel.title}")
        for name in ("FedAvg", "FedAdam")
        for axis in ("examples", "rounds")
        for panel in over(outcome, axis, algorithm=name)
    ]


FIGURE_9 = Experiment(
    name="figure-9",
    title="Cohorts that grow during training",
    where="Figures 9 and 39-40, section 5.3 and B.8",
    about="FedAvg and FedAdam with 50 clients a round, doubled every 300 of 1,500 rounds, against the fixed sizes at "
    "both ends.",
    paper=Setup(dynamic_cells(PAPER_TASKS), seeds=5),
    small=Setup(dynamic_cells(SMALL_TASKS), 2, SMALL + " The cohort grows from 20 to 320 in four doublings."),
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
            whole=0.75,
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


# ---- Figure 10 (41): normalised FedAvg -------------------------------------------------------------------------------


def normalised_pairs(outcome: Outcome, few: bool) -> Iterable[tuple[str, Result, Result]]:
    for data, _ in tasks_of(outcome, few=few):
        for one in by_cohort(outcome, data=data, algorithm="normalised FedAvg"):
            plain = outcome.one(data=data, algorithm="FedAvg", cohort=cohort_of_cell(one))
            yield f"{data}, M = {cohort_of_cell(one)}: normalised against plain, training accuracy", one, plain


def normalised_better(outcome: Outcome) -> Iterable[Check]:
    for what, one, plain in normalised_pairs(outcome, few=True):
        if cohort_of_cell(one) > TASKS[str(one.cell.at["data"])].reference:
            yield above(what, trains(one), trains(plain), unit=" %")


def normalised_worse(outcome: Outcome) -> Iterable[Check]:
    for what, one, plain in normalised_pairs(outcome, few=False):
        if one.cell.at["data"] != "Stack Overflow":
            yield below(what, trains(one), trains(plain), unit=" %")


FIGURE_10 = Experiment(
    name="figure-10",
    title="Normalised FedAvg",
    where="Figures 10 and 41, section 5.4 and B.9",
    about="The mean update is divided by its norm before the server's step, with FedAvg's own learning rates.",
    paper=paper("FedAvg", "normalised FedAvg", cohorts=lambda task: task.cohorts[1:]),
    small=small("FedAvg", "normalised FedAvg"),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "better-with-few-clients",
            "For large cohorts, normalisation improves the training accuracy on CIFAR-100 and Shakespeare.",
            "For each cohort above M = 50 (small scale: 20, Sent140), training accuracy is higher with normalisation.",
            normalised_better,
        ),
        Claim(
            "worse-on-emnist",
            "On EMNIST it is slightly worse for all cohort sizes.",
            "For each cohort size on EMNIST (small scale: Fashion-MNIST), training accuracy is lower with "
            "normalisation.",
            normalised_worse,
            whole=0.75,
        ),
    ),
    figure=train_and_test,
)


# ---- Figures 25-28: stragglers ---------------------------------------------------------------------------------------

LAMBDAS = (0.1, 1.0, 10.0, 100.0)
Floats = NDArray[np.float64]


@cache
def cohort_sizes(folder: Path) -> tuple[NDArray[np.int64], ...]:
    """The numbers of examples of each round's clients: a run's settings and its seed say them all."""
    config = StoredRun(folder).config
    federation, schedule = federation_of(config), as_schedule(cohort_of(config))
    rounds = range(1, config.run.rounds + 1)
    return tuple(federation.sizes[schedule.clients(t, federation.clients, config.run.seed)] for t in rounds)


def elapsed(run: Run, lambda_: float) -> Floats:
    """Simulated time until the end of each round, for this straggler parameter and alpha = 1, [rounds].

    The recorded time is for one parameter only; the training does not depend on it, so one run serves for all.
    """
    sizes, seed = cohort_sizes(run.stored.path), run.stored.seed
    return np.cumsum([round_time(sizes[t - 1], 1.0, lambda_, seed, int(t)) for t in run.rounds])


def time_to(result: Result, target: float, lambda_: float) -> float:
    """Simulated time until the accuracy is first reached, mean over the seeds; infinite if never."""
    times = []
    for run in result.runs:
        with np.errstate(invalid="ignore"):
            there = np.flatnonzero(run.column("test_accuracy") >= target)
        times.append(float(elapsed(run, lambda_)[there[0]]) if len(there) else math.inf)
    return number(times).mean


def straggler_cells(tasks: Mapping[str, Task], start: int) -> tuple[Cell, ...]:
    """The runs of figure 2; the cells of a run differ only in the parameter of the clock."""
    return tuple(
        Cell({**cell.at, "λ": lambda_}, cell.settings)
        for lambda_ in LAMBDAS
        for cell in cells(tasks, ["FedAvg"], lambda task: task.cohorts[start:])
    )


STRAGGLED = Measure(
    "simulated time to the task's accuracy (α = 1)",
    lambda r: Number(time_to(r, TASKS[str(r.cell.at["data"])].target, float(r.cell.at["λ"]))),
    better="low",
    digits=0,
)
SHARES = (0.8, 0.95)
"""A low and a high accuracy: parts of what the smallest cohort attains at its best."""


def relative_time(outcome: Outcome, data: str, share: float, lambda_: float) -> float:
    """The time of the largest cohort over that of the smallest, to a part of what the smallest attains."""
    found = by_cohort(outcome, data=data, λ=lambda_)
    target = share * found[0].best().mean
    with np.errstate(invalid="ignore"):
        return float(np.float64(time_to(found[-1], target, lambda_)) / time_to(found[0], target, lambda_))


def comparable(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        ratio = relative_time(outcome, data, SHARES[1], LAMBDAS[0])
        yield Check(
            f"{data}, λ = {LAMBDAS[0]:g}: largest against smallest cohort {ratio:.2f} times as long", ratio <= 1.5
        )


def slower(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        for share in SHARES:
            one, other = (relative_time(outcome, data, share, lambda_) for lambda_ in (LAMBDAS[-1], LAMBDAS[0]))
            what = f"{data}, to {100 * share:g} % of the smallest cohort's best: relative time with λ = 100 against 0.1"
            yield above(what, one, other)


def slower_early(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        low, high = (relative_time(outcome, data, share, LAMBDAS[-1]) for share in SHARES)
        yield above(f"{data}, λ = 100: relative time to a low accuracy against a high one", low, high)


def straggler_panels(outcome: Outcome) -> list[Panel]:
    """Time relative to the smallest cohort, over the accuracy to reach."""
    panels = []
    for data, _ in tasks_of(outcome):
        for lambda_ in LAMBDAS:
            first, *others = by_cohort(outcome, data=data, λ=lambda_)
            best = first.best().mean
            targets = [] if math.isnan(best) else np.linspace(0.5 * best, best, 26).tolist()
            base = [time_to(first, target, lambda_) for target in targets]
            lines = []
            for one in others:
                pairs = [
                    (t, time_to(one, t, lambda_) / b) for t, b in zip(targets, base, strict=True) if math.isfinite(b)
                ]
                kept = [(target, ratio) for target, ratio in pairs if math.isfinite(ratio)]
                lines.append(Line(f"M = {cohort_of_cell(one)}", [t for t, _ in kept], [ratio for _, ratio in kept]))
            title = f"{data}, λ = {lambda_:g}"
            panels.append(
                Panel(title, "test accuracy to reach", f"time relative to M = {cohort_of_cell(first)}", tuple(lines))
            )
    return panels


FIGURES_25_28 = Experiment(
    name="figures-25-28",
    title="Simulated time with stragglers",
    where="Figures 25-28, appendix B.5",
    about="A client with n examples needs αn plus an exponential time of mean λn; a round lasts as long as its "
    "slowest client. Time of FedAvg to an accuracy, relative to ten clients a round.",
    paper=Setup(straggler_cells(PAPER_TASKS, start=1), seeds=5),
    small=Setup(straggler_cells(SMALL_TASKS, start=0), 2, SMALL + " Times are relative to 5 clients a round."),
    measure=STRAGGLED,
    columns="cohort",
    claims=(
        Claim(
            "comparable",
            "With few stragglers, larger cohorts take about as long as ten clients a round.",
            "With λ = 0.1 the largest cohort takes at most 1.5 times as long as the smallest to 95 % of the "
            "smallest's best accuracy.",
            comparable,
        ),
        Claim(
            "slower",
            "The more stragglers, the more time large cohorts take in comparison.",
            "The relative time of the largest cohort is longer with λ = 100 than with 0.1, to 80 and to 95 % of the "
            "smallest's best accuracy.",
            slower,
        ),
        Claim(
            "slower-early",
            "The disadvantage is largest for low accuracies.",
            "With λ = 100 the relative time of the largest cohort is longer to 80 % of the smallest's best accuracy "
            "than to 95 %.",
            slower_early,
        ),
    ),
    figure=straggler_panels,
)  # fmt: skip


# ---- Figure 42: local steps ------------------------------------------------------------------------------------------

GRID_TARGET = 0.7
GRID_ROUNDS_TO = Measure(
    f"rounds to {100 * GRID_TARGET:g} % test accuracy", lambda r: r.reach(GRID_TARGET), better="low", digits=0
)


def step_cells(task: Task, cohorts: Sequence[int], steps: Sequence[int], more: Mapping[str, Any]) -> tuple[Cell, ...]:
    own = {**settings(task, "FedAvg", task.reference), "local.batch_size": 1, **more}
    del own["local.epochs"]
    return tuple(
        Cell({"cohort": cohort, "steps": number}, {**own, "run.cohort": cohort, "local.steps": number})
        for cohort in cohorts
        for number in steps
    )


def step_grid(outcome: Outcome, measure: Measure) -> tuple[list[int], list[int], list[list[float]]]:
    """Cohorts, steps, and the measure of each."""
    cohorts, steps = ([int(value) for value in outcome.places(name)] for name in ("cohort", "steps"))
    return cohorts, steps, [[measure(outcome.one(cohort=c, steps=s)).mean for s in steps] for c in cohorts]


def step_heats(outcome: Outcome) -> list[Heat]:
    found = []
    for measure in (GRID_ROUNDS_TO, ACCURACY):
        cohorts, steps, values = step_grid(outcome, measure)
        found.append(
            Heat(measure.title, "local steps", "cohort", [str(s) for s in steps], [str(c) for c in cohorts], values)
        )
    return found


def steps_speed_up(outcome: Outcome) -> Iterable[Check]:
    cohorts, steps, values = step_grid(outcome, GRID_ROUNDS_TO)
    for cohort, row in zip(cohorts, values, strict=True):
        best = min(range(len(row)), key=row.__getitem__)
        yield Check(
            f"M = {cohort}: {row[0]:g} rounds with one step, {row[best]:g} with {steps[best]}", row[best] < row[0]
        )


def steps_overdone(outcome: Outcome) -> Iterable[Check]:
    cohorts, steps, values = step_grid(outcome, ACCURACY)
    for cohort, row in zip(cohorts, values, strict=True):
        yield below(
            f"M = {cohort}: accuracy with {steps[-1]} steps against the best number", row[-1], max(row), by=1, unit=" %"
        )


def all_cohorts_converge(outcome: Outcome) -> Iterable[Check]:
    cohorts, steps, values = step_grid(outcome, GRID_ROUNDS_TO)
    for place, number_of_steps in enumerate(steps):
        reached = [cohort for cohort, row in zip(cohorts, values, strict=True) if math.isfinite(row[place])]
        text = f"{number_of_steps} steps: reached with {len(reached)} of {len(cohorts)} cohort sizes"
        yield Check(text, len(reached) in (0, len(cohorts)))


def steps_matter_more(outcome: Outcome) -> Iterable[Check]:
    _, _, values = step_grid(outcome, ACCURACY)
    table = np.asarray(values)
    by_steps, by_size = float(np.median(np.ptp(table, axis=1))), float(np.median(np.ptp(table, axis=0)))
    yield above(
        "median range of accuracy over the steps against that over the cohorts", by_steps, by_size, unit=" points"
    )


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
                   {"model.name": "logistic", "local.lr": 0.01, "run.rounds": 30, "run.evaluate_every": 1}),
        reduced="Fashion-MNIST with logistic regression instead of EMNIST with a CNN, client learning rate 0.01, "
        "steps 1 to 64, cohorts of 16, 64 and 256, 30 rounds, one seed.",
    ),
    measure=ACCURACY,
    columns="steps",
    claims=(
        Claim(
            "steps-accelerate",
            "With a fixed cohort, more local steps speed up convergence.",
            "For each cohort size, some number of steps above one reaches 70 % in fewer rounds than one step.",
            steps_speed_up,
        ),
        Claim(
            "too-many-steps",
            "... but only up to a point: too many steps ruin the result.",
            "For each cohort size, the accuracy with the most steps is more than 1 point below the best.",
            steps_overdone,
        ),
        Claim(
            "all-cohorts",
            "If a number of steps converges for one cohort size, it does for all.",
            "Each number of steps reaches 70 % with all cohort sizes or with none.",
            all_cohorts_converge,
        ),
        Claim(
            "steps-over-cohort",
            "The number of local steps matters more for the final accuracy than the cohort size.",
            "The median over cohorts of the range of accuracies over the steps exceeds the median over steps of the "
            "range over the cohorts.",
            steps_matter_more,
        ),
    ),
    figure=step_heats,
)  # fmt: skip


LARGE_COHORT = Paper(
    name="large-cohort",
    title="On large-cohort training for federated learning",
    citation="Charles, Garrett, Huo, Shmulyian, Smith, NeurIPS 2021, arXiv:2106.07820.",
    experiments=(
        FIGURE_1,
        FIGURE_2,
        FIGURE_3,
        FIGURE_4,
        FIGURE_5,
        FIGURE_6,
        FIGURE_7,
        FIGURE_8,
        FIGURE_9,
        FIGURE_10,
        FIGURES_20_24,
        FIGURES_25_28,
        FIGURES_29_35,
        FIGURE_36,
        FIGURE_37,
        FIGURE_42,
        TABLES_4_5,
    ),
    notes=(
        "At the paper's scale a fifth of the clients is held out for the search, also of Stack Overflow's, whose own "
        "validation clients are not read here.",
        "The paper names two cohort sizes for the search of learning rates, 50 (section 2.1) and 10 (appendix A.4); "
        "we take 50. One set of learning rates serves all cohort sizes.",
        "The server's warm-up starts from the unscaled rate in section 5.1 and from zero in appendix B.7; we take "
        "zero.",
        "At small scale a first search of learning rates ran for about half of the rounds, and its rates made FedLARS "
        "and FedLamb collapse on Fashion-MNIST. It was repeated over all rounds, after these results had been seen, "
        "and what depends on the rates that changed was run again: the claim about layer-wise servers in Figure 8 went "
        "from contradicted to partly.",
        "The rules were not changed after the runs but for one: tables 6-9 no longer compare the median with itself.",
        "Accuracies at the end are means over the last tenth of the evaluations, or of the rounds.",
        "Training accuracy is measured on the clients' batches during local training, averaged over the cohort.",
        "The norm of the mean update is taken after clipping, as the server sees it.",
        "At the paper's scale, EMNIST is `femnist` with the files of TensorFlow Federated. CIFAR-100's test images "
        "are not divided among clients here: for tables 6-9, 100 of its 500 clients are held out as test clients.",
        "Cohort sizes of the figures that the text does not list are those of tables 6-9, and 1.",
    ),
)
