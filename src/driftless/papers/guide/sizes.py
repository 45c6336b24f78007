"""Clients have different numbers of examples: should their updates weigh by them?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from driftless.papers.guide.measures import QUALITY, SELECTION, score
from driftless.papers.guide.settings import CHOSEN, HUNDRED, cell, setup
from driftless.reproduce.checks import Check, above
from driftless.reproduce.experiment import Cell, Claim, Experiment
from driftless.reproduce.figure import curves
from driftless.reproduce.outcome import Outcome

NAMES = ("FedAvg", "FedAvgM", "SCAFFOLD", "FedDyn", "AdaBest")
WEIGHTINGS = ("examples", "uniform")
DIFFERENT: dict[str, object] = {
    **HUNDRED, "data.partition": "dirichlet", "data.alpha": 0.5, "data.sizes": "lognormal", "data.sigma": 1.5,
}  # fmt: skip


def cells() -> tuple[Cell, ...]:
    return tuple(
        cell(name, {"weighting": weighting}, {**DIFFERENT, "server.weighting": weighting})
        for weighting in WEIGHTINGS
        for name in NAMES
    )


def examples_better(name: str) -> Callable[[Outcome], Iterator[Check]]:
    def checks(outcome: Outcome) -> Iterator[Check]:
        one, other = (score(outcome, name, weighting=weighting) for weighting in WEIGHTINGS)
        yield above(f"{name}, by examples against uniform", one, other, unit=" %")

    return checks


SETUP = setup(cells())
SIZES = Experiment(
    name="sizes",
    title="Sizes differ between clients",
    where="Study 5",
    about=f"{CHOSEN} 100 clients, 10 of them a round, 40 rounds, α = 0.5. Sizes are lognormal with σ = 1.5: "
    "half of the clients have 1 to 5 examples, the largest some hundreds.",
    paper=SETUP,
    small=SETUP,
    measure=QUALITY,
    selection=SELECTION,
    figure=lambda outcome: curves(outcome, "test_accuracy", by="weighting"),
    ours=True,
    claims=tuple(
        Claim(
            name.lower(),
            f"Where sizes differ much, {name} is more accurate with updates weighed by examples.",
            "Its accuracy with weighting=examples exceeds that with weighting=uniform.",
            examples_better(name),
        )
        for name in NAMES
    ),
)
