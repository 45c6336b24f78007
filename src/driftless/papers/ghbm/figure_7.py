"""Figure 7: a decaying learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

from driftless.papers.ghbm.measures import QUALITY, accuracy_curves
from driftless.papers.ghbm.settings import FASHION_MNIST, IID, NON_IID, REDUCED, paper_cell, small_cell
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome, above, below

DECAYS = (0.999, 0.9992, 0.9995, 0.9999)
SMALL_DECAYS = (0.951, 0.995)
"""The strongest and the mildest: to the same end after 200 rounds as the paper's after 10,000."""
DECAYED = ("FedAvg", "SCAFFOLD", "MimeMom", "FedHBM")
CONSTANT, DECAYING = "constant", "decaying"


def decay_cells(
    cell: Callable[..., Cell], task: str, labels: Sequence[str], decays: Sequence[float], names: Sequence[str] = DECAYED
) -> Iterator[Cell]:
    for where in labels:
        for name in names:
            at = {"data": task, "labels": where, "algorithm": name}
            plain = cell(alpha=where, name=name, task=task, at={**at, "rate": CONSTANT})
            yield plain
            yield Cell({**at, "rate": DECAYING}, plain.settings, None, {**plain.grid, "local.lr_decay": decays})


def same_order(outcome: Outcome) -> Iterable[Check]:
    """Pairs that are further apart than a point without decay."""
    for labels in outcome.places("labels"):
        plain, decayed = (
            {str(one.cell.at["algorithm"]): outcome.measured(one) for one in outcome.pick(labels=labels, rate=rate)}
            for rate in (CONSTANT, DECAYING)
        )
        for one, other in combinations(plain, 2):
            if abs(plain[one] - plain[other]) > 1:
                first, second = (one, other) if plain[one] > plain[other] else (other, one)
                yield above(f"{labels}, decaying: {first} over {second}", decayed[first], decayed[second], unit=" %")


def decay_does_not_help(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.pick(rate=DECAYING):
        plain = outcome.one(**{**one.cell.at, "rate": CONSTANT})
        what = f"{one.cell.at['algorithm']}, {one.cell.at['labels']}: decaying against constant"
        yield below(what, outcome.measured(one), outcome.measured(plain) + 0.5, unit=" %")


def mildest_decay(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.pick(rate=DECAYING):
        mildest = max(one.cell.grid.get("local.lr_decay", (1.0,)))
        best = one.settings.get("local.lr_decay", math.nan)
        yield Check(f"{one.cell.at['algorithm']}, {one.cell.at['labels']}: best decay {best:g}", best == mildest)


FIGURE_7 = Experiment(
    name="figure-7",
    title="A decaying learning rate",
    where="Figure 7, appendix C.7",
    about="The best methods on CIFAR-100 with a ResNet-20, with a learning rate that decays each round; the factor is "
    "searched in {0.999, 0.9992, 0.9995, 0.9999} for each method.",
    paper=Setup(tuple(decay_cells(paper_cell, "CIFAR-100, ResNet-20", (NON_IID, IID), DECAYS)), seeds=5),
    small=Setup(
        tuple(decay_cells(small_cell, FASHION_MNIST, (NON_IID,), SMALL_DECAYS, ("FedAvg", "SCAFFOLD", "FedHBM"))),
        reduced=REDUCED
        + " Factors of 0.951 and 0.995, which do in 200 rounds what 0.999 and 0.9999 do in 10,000; α = 0 and three "
        "methods only.",
    ),
    measure=QUALITY,
    figure=accuracy_curves,
    claims=(
        Claim(
            "order",
            "Decay does not change which methods are better than which.",
            "Methods that differ by more than a point with a constant rate are in the same order with a decaying one.",
            same_order,
        ),
        Claim(
            "no-help",
            "In this setting decay does not help.",
            "With the best factor no method gains more than half a point.",
            decay_does_not_help,
        ),
        Claim(
            "mildest",
            "The mildest decay is the best of the grid for every method.",
            "Of the factors that are tried, the largest is chosen.",
            mildest_decay,
        ),
    ),
)
