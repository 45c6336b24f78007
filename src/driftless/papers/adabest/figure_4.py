"""Figure 4: the instability of Figure 1 on an easy task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from driftless.papers.adabest.settings import BETA, MNIST_MLP, TASKS
from driftless.papers.adabest.stability import (
    accuracy_falls,
    norm_growth,
    stability_cells,
    stability_figure,
    stability_settings,
)
from driftless.reproduce.checks import Check
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.outcome import LAST_ACCURACY, Outcome

ROUNDS, ROUNDS_WITHOUT_DECAY = 10_000, 1000
DECAY = {"decay 0.998": 0.998, "no decay": 1.0}
"""Of the learning rate. The paper has the first; its rate is 1e-9 of the first one after 10,000 rounds."""
LONG_RUNS = ("FedDyn", "AdaBest")
"""Of which the claims speak."""
Checks = Callable[[Outcome], Iterable[Check]]


def easy_settings(task: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    """Section D.3."""
    return stability_settings(task, 100, "IID", rounds, held_out=10)


def with_decay(cells: Iterable[Cell], *decays: str) -> tuple[Cell, ...]:
    return tuple(
        replace(cell, at={"decay": decay, **cell.at}, settings={**cell.settings, "local.lr_decay": DECAY[decay]})
        for decay in decays
        for cell in cells
    )


def at_decay(decay: str, checks: Checks) -> Checks:
    return lambda outcome: checks(outcome.part(decay=decay))


def with_and_without_decay(claim: Claim) -> tuple[Claim, Claim]:
    """The paper's claim, and the same for a constant learning rate."""
    paper, constant = DECAY
    return (
        replace(claim, rule=f"With the paper's decay of the learning rate: {claim.rule}",
                checks=at_decay(paper, claim.checks)),
        replace(claim, name=f"{claim.name}-constant-rate", text=f"Without decay of the learning rate: {claim.text}",
                rule=f"With a constant learning rate: {claim.rule}", checks=at_decay(constant, claim.checks),
                paper="not in the paper"),
    )  # fmt: skip


FIGURE_4 = Experiment(
    name="figure-4",
    title="The same instability on an easy task",
    where="Figure 4, section D.3",
    about="EMNIST-L dealt at random to 110 parts, 100 of them clients, 5 a round, for many rounds. Besides the paper's "
    "decay of the learning rate, which all but stops the clients after 3,000 rounds, a constant rate is run.",
    paper=Setup(
        with_decay(stability_cells(easy_settings(TASKS["EMNIST-L"], ROUNDS), BETA["10%"]), "decay 0.998"), seeds=5
    ),
    small=Setup(
        with_decay(stability_cells(easy_settings(MNIST_MLP, ROUNDS), BETA["10%"], LONG_RUNS), "decay 0.998")
        + with_decay(stability_cells(easy_settings(MNIST_MLP, ROUNDS_WITHOUT_DECAY), BETA["10%"]), "no decay"),
        seeds=2,
        most_seeds=3,
        reduced="MNIST instead of EMNIST-L; without SCAFFOLD; 1,000 rounds with a constant rate. With decay the rounds "
        "are the paper's: 1,000 were run first and looked at (with 3 seeds FedDyn's norm at the end was 0.56 times, "
        "AdaBest's 0.60 times that at a quarter, and FedDyn's had begun to rise again), and judged to be too few for "
        "claims about long training. No rule was changed.",
    ),
    measure=LAST_ACCURACY,
    claims=(
        *with_and_without_decay(Claim(
            "easy-too",
            "Even on an easy, homogeneous task the norm of FedDyn's model grows without end.",
            "from the first quarter of the rounds to the end the norm more than doubles for FedDyn, and does not for "
            "AdaBest.",
            norm_growth,
            paper="FedDyn's norm grows to the end, AdaBest's does not (drawn)",
        )),
        *with_and_without_decay(Claim(
            "fails-to-converge",
            "FedDyn does not converge there when training goes on.",
            "the mean of the last tenth of the evaluations is more than 2 points below the best tenth for FedDyn, less "
            "for AdaBest.",
            accuracy_falls,
            paper='"still FedDyn fails to converge" (D.3)',
        )),
    ),
    figure=stability_figure,
)  # fmt: skip
