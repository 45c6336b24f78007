"""Figure 4: the form that is analysed and the form that is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from driftless.papers.ghbm.hyper_parameters import LR, TAU
from driftless.papers.ghbm.measures import QUALITY, SELECTION, accuracy_curves, scores_by_setting
from driftless.papers.ghbm.settings import (
    IID,
    NON_IID,
    SMALL_NETWORKS,
    TWO_NETWORKS_REDUCED,
    paper_cell,
    small_cell,
    small_setup,
)
from driftless.reproduce.checks import Check, close
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome

ANALYSED = "GHBM as analysed"
ANALYSED_OWN = {"algorithm.name": "ghbm-theory", "algorithm.beta": 0.1, TAU: 10}
"""Its beta weighs the new gradient: 0.1 is GHBM's 0.9."""
ANALYSED_RATES = (1.0, 0.3, 0.1, 0.03)
"""Not printed: GHBM's rates, and larger ones, because the new gradient has the weight 0.1 only."""


def both_forms(cell: Callable[..., Cell], tasks: Sequence[str]) -> Iterator[Cell]:
    for task in tasks:
        for labels in (NON_IID, IID):
            plain = cell(alpha=labels, name="GHBM", task=task)
            yield plain
            kept = {key: value for key, value in plain.settings.items() if not key.startswith("algorithm.")}
            at, grid = {**plain.at, "algorithm": ANALYSED}, {LR: ANALYSED_RATES}
            yield replace(plain, at=at, settings={**kept, **ANALYSED_OWN}, grid=grid)


def forms_agree(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, "GHBM", ANALYSED):
        yield from close(f"{where}: as analysed, GHBM", scores[ANALYSED], scores["GHBM"], margin=3, unit=" %")


FIGURE_4 = Experiment(
    name="figure-4",
    title="The form that is analysed and the form that is run",
    where="Figure 4, appendix B",
    about="GHBM (Algorithm 2) beside the form for which convergence is proved (Algorithm 3), with a ResNet-20 on "
    "CIFAR-10 and CIFAR-100, non-iid and iid.",
    paper=Setup(tuple(both_forms(paper_cell, ("CIFAR-10, ResNet-20", "CIFAR-100, ResNet-20"))), seeds=5),
    small=small_setup(
        both_forms(small_cell, SMALL_NETWORKS),
        reduced=TWO_NETWORKS_REDUCED + " The form that is analysed has the learning rates 1, 0.3, 0.1, 0.03.",
        most_seeds=4,
    ),
    measure=QUALITY,
    selection=SELECTION,
    figure=accuracy_curves,
    claims=(
        Claim(
            "alike",
            "The two forms perform alike.",
            "In each setting their qualities differ by less than 3 points.",
            forms_agree,
            paper="drawn, without a word on the result",
        ),
    ),
)
