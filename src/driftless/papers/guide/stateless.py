"""Clients cannot keep state: which of the methods that need none, and what is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from driftless.papers.guide.measures import QUALITY, SELECTION, picked, score
from driftless.papers.guide.settings import (
    CHOSEN,
    COMPARED,
    SELDOM,
    STATELESS,
    cohort_cells,
    label_cells,
    setup,
)
from driftless.reproduce.checks import Check, above
from driftless.reproduce.experiment import Cell, Claim, Experiment
from driftless.reproduce.figure import curves
from driftless.reproduce.outcome import Outcome


def cells() -> tuple[Cell, ...]:
    """Runs of the first two studies."""
    labels = (
        replace(one, at={"setting": one.at["labels"], "algorithm": one.at["algorithm"]})
        for one in label_cells(COMPARED, ("α=0.05", "α=0.5"))
    )
    return *labels, *cohort_cells(COMPARED, (SELDOM,), place="setting")


def above_fedavg(name: str) -> Callable[[Outcome], Iterator[Check]]:
    def checks(outcome: Outcome) -> Iterator[Check]:
        for setting in outcome.places("setting"):
            ours, fedavg = (score(outcome, one, setting=setting) for one in (name, "FedAvg"))
            yield above(f"{setting}: {name} against FedAvg", ours, fedavg, unit=" %")

    return checks


def little_lost(outcome: Outcome) -> Iterator[Check]:
    for setting in outcome.places("setting"):
        stateless, all_methods = (picked(outcome, names, setting=setting) for names in (STATELESS, COMPARED))
        yield above(f"{setting}: best without state against best of all", stateless, all_methods, -1, " %")


SETUP = setup(cells())
STATELESS_STUDY = Experiment(
    name="stateless",
    title="Clients cannot keep state",
    where="Study 4",
    about=f"{CHOSEN} Three settings of the first two studies: 100 clients with α = 0.05 and with α = 0.5, and 350 "
    "clients of which 4 take part in a round.",
    paper=SETUP,
    small=SETUP,
    measure=QUALITY,
    selection=SELECTION,
    figure=lambda outcome: curves(replace(outcome, results=tuple(
        one for one in outcome.results if one.cell.at["algorithm"] in STATELESS
    )), "test_accuracy", by="setting"),
    ours=True,
    claims=(
        Claim(
            "little-lost",
            "Who picks the best method on held-out clients loses little by leaving out those that keep state on "
            "clients.",
            "In each seed, of the methods without client state, and of all methods, the one with the best accuracy on "
            "held-out clients is taken. The test accuracy of the first is less than 1 point below that of the second, "
            "on average over the settings.",
            little_lost,
            decided_by="average",
        ),
        *(
            Claim(
                name.lower(),
                f"Over all, {name} is more accurate than FedAvg.",
                "Its accuracy exceeds FedAvg's on average over the three settings.",
                above_fedavg(name),
                decided_by="average",
            )
            for name in STATELESS
            if name != "FedAvg"
        ),
    ),
)  # fmt: skip
