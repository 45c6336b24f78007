"""AdaBest against the other algorithms over many settings: what Table 2 and Figure 3 share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from driftless.reproduce.checks import Check, below, pooled, renamed
from driftless.reproduce.outcome import Floats, Measure, Outcome, Result, cost_to_reach, rivals

HELD_OUT = Measure("accuracy (%) on held-out clients", lambda result: result.final("validation_accuracy"), 100)


def others(outcome: Outcome) -> list[str]:
    return [str(name) for name in outcome.places("algorithm") if name != "AdaBest"]


def averaged(what: str, checks: Sequence[Check]) -> Iterator[Check]:
    """One check, of the average over the settings; none where there is no setting."""
    if checks:
        yield from renamed(what, [pooled(checks)])


def ahead_of_each(outcome: Outcome, slack: float = 0.0) -> Iterator[Check]:
    """AdaBest against every other algorithm, each on average over the settings."""
    for name in others(outcome):
        but = [one for one in others(outcome) if one != name]
        yield from averaged(f"AdaBest against {name}", list(rivals(outcome, "AdaBest", slack, but)))


def faster_than_each(outcome: Outcome) -> Iterator[Check]:
    """By the rounds until the accuracy is reached that all algorithms have at the end."""
    waits = [(rest, rounds_to_common_accuracy(results)) for rest, results in outcome.groups("algorithm")]
    for name in others(outcome):
        checks = [
            below(", ".join(map(str, rest.values())), wait["AdaBest"], wait[name], unit=" % of the rounds")
            for rest, wait in waits
            if {"AdaBest", name} <= set(wait)
        ]
        yield from averaged(f"AdaBest against {name}", checks)


def rounds_to_common_accuracy(results: Sequence[Result]) -> dict[str, Floats]:
    """Per algorithm and seed: rounds, in per cent of all, until the lowest of the final accuracies is first reached.
    All algorithms reach it, so that none needs for ever."""
    targets = np.stack([one.final() for one in results]).min(0)
    return {str(one.cell.at["algorithm"]): np.array([
        100 * cost_to_reach(run, target) / max(other.runs[seed].rounds[-1] for other in results)
        for seed, (run, target) in enumerate(zip(one.runs, targets, strict=True))
    ]) for one in results}  # fmt: skip
