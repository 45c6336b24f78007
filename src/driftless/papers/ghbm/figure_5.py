"""Figures 5 and 10: accuracy over the rounds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product

import numpy as np

from driftless.papers.ghbm.all_methods import HEAVY_BALL
from driftless.papers.ghbm.measures import QUALITY, SELECTION, accuracy_curves, last_rounds, setting_text
from driftless.papers.ghbm.settings import NON_IID, paper_cell, small_cell, small_setup
from driftless.report.curves import Run
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome, cost_to_reach

CURVES = ("FedAvg", "SCAFFOLD", "FedAvgM", "FedCM", "MimeMom", *HEAVY_BALL)
BEGINNING = 1000
"""Rounds; Figure 10 does not say how many it shows."""
CURVE_TASKS = ("CIFAR-10, CNN", "CIFAR-10, ResNet-20", "CIFAR-100, CNN", "CIFAR-100, ResNet-20")


def soonest(outcome: Outcome) -> Iterable[Check]:
    """The whole budget where the target is never reached, as in appendix C.3."""
    for rest, results in outcome.groups("algorithm"):
        runs = {str(one.cell.at["algorithm"]): one.runs for one in results}
        targets = last_rounds(outcome.one(**{**rest, "algorithm": "FedAvg"}))
        rounds = {
            name: np.array(
                [min(cost_to_reach(run, target), run.budget) for run, target in zip(each, targets, strict=True)]
            )
            for name, each in runs.items()
        }
        for name, other in product(HEAVY_BALL, (name for name in rounds if name not in HEAVY_BALL)):
            what = f"{setting_text(rest)}, rounds to FedAvg's quality: {name}, {other}"
            yield below(what, rounds[name], rounds[other], unit=" rounds")


def still_rising(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.results:
        second, last = (one.of_runs(lambda run, part=part: accuracy_in_quarter(run, part)) for part in (1, 3))
        yield above(f"{one.label}: the last quarter, the second", 100 * last, 100 * second, by=0.5, unit=" %")


def accuracy_in_quarter(run: Run, quarter: int) -> float:
    """The mean in one of the four quarters of the beginning: of the first 1,000 rounds or the whole run."""
    length = min(BEGINNING, run.played) / 4
    chosen = (run.rounds > quarter * length) & (run.rounds <= (quarter + 1) * length)
    values = run.column("test_accuracy")[chosen]
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


FIGURE_5 = Experiment(
    name="figure-5",
    title="Accuracy over the rounds",
    where="Figure 5, appendix C.6, and Figure 10, appendix C.10",
    about="The curves behind Tables 2 and 8 at α = 0, over the whole training (Figure 5) and over its beginning "
    "(Figure 10).",
    paper=Setup(tuple(paper_cell(task, NON_IID, name) for task in CURVE_TASKS for name in CURVES), seeds=5),
    small=small_setup(small_cell(NON_IID, name) for name in CURVES),
    measure=QUALITY,
    selection=SELECTION,
    figure=accuracy_curves,
    claims=(
        Claim(
            "soonest",
            "LocalGHBM and FedHBM converge faster than the other methods.",
            "Each reaches FedAvg's quality, that of the same seed, in fewer rounds than each other method; the whole "
            "budget counts where it is never reached.",
            soonest,
            paper='drawn: "faster convergence"',
        ),
        Claim(
            "not-converged",
            "After a small budget of rounds no method has converged at α = 0, so that comparisons there mislead.",
            "In the first 1,000 rounds, or in all if there are fewer, the mean accuracy of each method in the last "
            "quarter is more than half a point above that in the second.",
            still_rising,
            paper='drawn: "none of the algorithms have reached its convergence point"',
        ),
    ),
)
