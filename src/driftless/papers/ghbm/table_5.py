"""Table 5: centralised training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from driftless.papers.ghbm.settings import TASKS
from driftless.reproduce.checks import Check, close
from driftless.reproduce.experiment import Cell, Claim, Experiment, Number, Setup
from driftless.reproduce.outcome import Measure, Outcome
from driftless.reproduce.published import published

PUBLISHED = published(__file__, "table_5")
LAST_EPOCHS = Measure(
    "test accuracy (%), mean of the last 10 epochs",
    lambda result: result.per_seed("test_accuracy", lambda values: values[-10:].mean()), 100, digits=1,
)  # fmt: skip


def cosine(lr: float, epochs: int) -> list[float]:
    return [lr * (1 + math.cos(math.pi * epoch / epochs)) / 2 for epoch in range(epochs)]


def centralised(task: str, epochs: int, **local: Any) -> dict[str, Any]:
    """One client has all data; a round is an epoch, and momentum begins anew with it."""
    kept = {key: value for key, value in TASKS[task].settings.items()
            if not key.startswith(("run.", "local.weight_decay", "local.steps"))}  # fmt: skip
    own = {f"local.{key}": value for key, value in local.items()}
    return {**kept, "data.clients": 1, "data.partition": "iid", "local.epochs": 1, "run.cohort": 1,
            "run.rounds": epochs, "run.evaluate_every": 1, "algorithm.name": "fedavg", **own}  # fmt: skip


SETTINGS = {
    "CIFAR-10, CNN": centralised("CIFAR-10, CNN", 150, lr=cosine(0.01, 150), momentum=0.9),
    "CIFAR-10, ResNet-20": centralised("CIFAR-10, ResNet-20", 150, lr=cosine(0.1, 150), momentum=0.9),
    "CIFAR-100, CNN": centralised("CIFAR-100, CNN", 150, lr=cosine(0.01, 150), momentum=0.9),
    "CIFAR-100, ResNet-20": centralised("CIFAR-100, ResNet-20", 150, lr=cosine(0.1, 150), momentum=0.9),
    "Shakespeare": centralised("Shakespeare", 75, lr=1.0, weight_decay=0.0001),
    "StackOverflow": centralised("StackOverflow", 50, lr=10**-0.5),
}
"""GLDv2 is left out: its settings are not printed."""


def cells() -> Iterator[Cell]:
    for task, settings in SETTINGS.items():
        yield Cell({"data": task}, settings, Number(*PUBLISHED[task]))


def as_printed(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.results:
        assert one.cell.published is not None
        yield from close(f"{one.label}: ours, printed", outcome.measured(one), one.cell.published.mean, 1.0, unit=" %")


TABLE_5 = Experiment(
    name="table-5",
    title="Centralised training",
    where="Table 5, appendix C.1",
    about="The accuracy that the same networks reach when all data are in one place, printed for reference.",
    paper=Setup(tuple(cells()), seeds=5),
    small=None,
    untestable="50 to 150 epochs of all data for each network and seed take days on two cores, and with fewer the "
    "printed accuracies cannot show",
    measure=LAST_EPOCHS,
    columns="data",
    claims=(
        Claim(
            "reference",
            "Centralised training reaches the printed accuracies.",
            "For each data set and network the mean accuracy of the last ten epochs is within one point of that of "
            "Table 5.",
            as_printed,
            paper=", ".join(f"{mean:g} % ({task})" for task, (mean, _) in PUBLISHED.items()),
        ),
    ),
)
