"""Figure 2: Shakespeare with 50 local steps."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from driftless.papers.fedgbo.measures import faster, pairs, starts_faster
from driftless.papers.fedgbo.rows import figure_row
from driftless.papers.fedgbo.settings import OPTIMISERS
from driftless.reproduce.checks import Check
from driftless.reproduce.experiment import Claim
from driftless.reproduce.outcome import Outcome


def mfl_and_fedavg_lead(outcome: Outcome) -> Iterable[Check]:
    for leader, rival in product(("MFL", "FedAvg"), ("FedGBO", "Mimelite")):
        for pair in pairs(outcome, [leader], OPTIMISERS, (rival, None)):
            yield faster(*pair)
            yield starts_faster(*pair)


FIGURE_2_SHAKESPEARE = figure_row(
    2,
    "Shakespeare",
    (
        Claim(
            "mfl-fedavg-lead",
            "With 50 local steps MFL and FedAvg do best, and FedGBO and Mimelite start poorly.",
            "On average over the optimisers and these pairs, the accuracies of MFL and of FedAvg, mean over the run "
            "and over its first fifth, exceed those of FedGBO and of Mimelite.",
            mfl_and_fedavg_lead,
            decided_by="average",
            paper="“overall showed best convergence”, drawn",
        ),
    ),
)
