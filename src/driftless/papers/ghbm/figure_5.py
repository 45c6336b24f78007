"""Figures 5 and 10: accuracy over the rounds."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.ghbm.all_methods import HEAVY_BALL
from driftless.papers.ghbm.measures import QUALITY, accuracy_curves, last_rounds, setting_text
from driftless.papers.ghbm.settings import NON_IID, REDUCED, paper_cell, small_cell
from driftless.reproduce.experiment import Check, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome, above, number

CURVES = ("FedAvg", "SCAFFOLD", "FedAvgM", "FedCM", "MimeMom", *HEAVY_BALL)
CURVE_TASKS = ("CIFAR-10, CNN", "CIFAR-10, ResNet-20", "CIFAR-100, CNN", "CIFAR-100, ResNet-20")


def soonest(outcome: Outcome) -> Iterable[Check]:
    for rest, results in outcome.groups("algorithm"):
        runs = {str(one.cell.at["algorithm"]): one for one in results}
        target = last_rounds(runs["FedAvg"]).mean
        rounds = {name: one.reach(target).mean for name, one in runs.items() if name not in HEAVY_BALL}
        rival = min(rounds, key=lambda name: rounds[name])
        for name in HEAVY_BALL:
            seen = runs[name].reach(target).mean
            what = f"{setting_text(rest)}, rounds to {100 * target:.1f} %"
            yield Check(f"{what}: {name} {seen:.0f}, fastest other {rival} {rounds[rival]:.0f}", seen <= rounds[rival])


def still_rising(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.results:
        parts = [values[len(values) // 4 : len(values) // 2] for values in one.each("test_accuracy")]
        early = number([100 * float(part.mean()) for part in parts if len(part)]).mean
        yield above(
            f"{one.label}: the last quarter over the second", 100 * last_rounds(one).mean, early, by=0.5, unit=" %"
        )


FIGURE_5 = Experiment(
    name="figure-5",
    title="Accuracy over the rounds",
    where="Figure 5, appendix C.6, and Figure 10, appendix C.10",
    about="The curves behind Tables 2 and 8 at α = 0, over the whole training (Figure 5) and over its beginning "
    "(Figure 10).",
    paper=Setup(tuple(paper_cell(task, NON_IID, name) for task in CURVE_TASKS for name in CURVES), seeds=5),
    small=Setup(tuple(small_cell(NON_IID, name) for name in CURVES), reduced=REDUCED),
    measure=QUALITY,
    figure=accuracy_curves,
    claims=(
        Claim(
            "soonest",
            "LocalGHBM and FedHBM converge faster than the other methods.",
            "Each reaches FedAvg's quality in no more rounds than the fastest of the others.",
            soonest,
        ),
        Claim(
            "not-converged",
            "After a small budget of rounds no method has converged at α = 0, so that comparisons there mislead.",
            "The quality of each method is more than half a point above its mean accuracy in the second quarter.",
            still_rising,
        ),
    ),
)
