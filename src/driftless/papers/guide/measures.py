"""What is measured on the runs, and the comparisons with FedAvg that most claims are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from driftless.report.curves import Run
from driftless.reproduce.checks import Check, above
from driftless.reproduce.experiment import Claim, Place
from driftless.reproduce.outcome import Floats, Measure, Outcome, Result

LAST_QUARTER = 0.25
TEST, HELD_OUT = "test_accuracy", "validation_accuracy"


def last_quarter(run: Run, key: str, rounds: float = math.inf) -> float:
    """The mean over the last quarter of the run, or of so many first rounds of it; not a number if it diverged."""
    if run.status == "diverged":
        return math.nan
    end = min(rounds, run.played)
    values = run.column(key)[(run.rounds > (1 - LAST_QUARTER) * end) & (run.rounds <= end)]
    return float(np.nanmean(values)) if np.isfinite(values).any() else math.nan


QUALITY = Measure(
    "test accuracy (%), mean of the last quarter of the rounds",
    lambda result: result.of_runs(lambda run: last_quarter(run, TEST)),
    100,
    digits=1,
)
SELECTION = Measure(
    "accuracy (%) on held-out clients, mean of the last quarter of the rounds",
    lambda result: result.of_runs(lambda run: last_quarter(run, HELD_OUT)),
    100,
    digits=1,
)


def score(outcome: Outcome, name: str, **at: Place) -> Floats:
    return outcome.measured(outcome.one(algorithm=name, **at))


def advantage(outcome: Outcome, name: str, **at: Place) -> Floats:
    """Over FedAvg, in points, for each seed."""
    return score(outcome, name, **at) - score(outcome, "FedAvg", **at)


def against_fedavg(name: str, at: Mapping[str, Place]) -> Callable[[Outcome], Iterator[Check]]:
    def checks(outcome: Outcome) -> Iterator[Check]:
        yield above(f"{name} against FedAvg", score(outcome, name, **at), score(outcome, "FedAvg", **at), unit=" %")

    return checks


def better_than_fedavg(name: str, where: str, at: Mapping[str, Place], suffix: str = "") -> Claim:
    """`where`: the setting, as the beginning of a sentence."""
    return Claim(
        name.lower() + suffix,
        f"{where}, {name} is more accurate than FedAvg.",
        f"With {', '.join(map(str, at.values()))}: its accuracy exceeds FedAvg's, both averaged over the last quarter "
        "of the rounds.",
        against_fedavg(name, at),
    )


def picked(outcome: Outcome, names: tuple[str, ...], **at: Place) -> Floats:
    """For each seed, the test accuracy of the method that is best on the held-out clients: what a user would get who
    tries all of them."""
    results: list[Result] = [outcome.one(algorithm=name, **at) for name in names]
    held_out = np.nan_to_num(np.stack([SELECTION(one) for one in results]), nan=-1.0)
    test = np.stack([outcome.measured(one) for one in results])
    return test[held_out.argmax(0), np.arange(test.shape[1])]
