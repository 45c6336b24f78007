"""Many clients, few of them a round: what is left of the methods when clients seldom return."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from driftless.papers.guide.measures import QUALITY, SELECTION, advantage, better_than_fedavg
from driftless.papers.guide.settings import CHOSEN, COHORTS, COMPARED, OFTEN, SELDOM, WITH_STATE, cohort_cells, setup
from driftless.reproduce.checks import Check, below
from driftless.reproduce.experiment import Claim, Experiment
from driftless.reproduce.figure import curves
from driftless.reproduce.outcome import Outcome

SETUP = setup(cohort_cells(COMPARED, tuple(COHORTS)))


def smaller_advantage(outcome: Outcome) -> Iterator[Check]:
    seldom, often = (
        np.mean([advantage(outcome, name, cohort=cohort) for name in WITH_STATE], axis=0) for cohort in (SELDOM, OFTEN)
    )
    yield below("mean advantage over FedAvg, 4 of 350 against 40 of 350", seldom, often, unit=" %")


PARTICIPATION = Experiment(
    name="participation",
    title="Clients seldom return",
    where="Study 2",
    about=f"{CHOSEN} 350 clients of 3 or 4 examples, labels by a Dirichlet distribution with α = 0.3. With 4 clients a "
    "round for 100 rounds a client takes part about once; with 40 a round for 40 rounds, four or five times.",
    paper=SETUP,
    small=SETUP,
    measure=QUALITY,
    selection=SELECTION,
    figure=lambda outcome: curves(outcome, "test_accuracy", by="cohort"),
    ours=True,
    claims=(
        Claim(
            "state-needs-returns",
            "Methods that keep state on clients lose a part of their advantage over FedAvg when clients seldom return.",
            "The mean over SCAFFOLD, FedDyn, AdaBest and FedHBM of the difference to FedAvg's accuracy is smaller with "
            "4 of 350 clients a round than with 40.",
            smaller_advantage,
        ),
        *(
            better_than_fedavg(name, "Where a client takes part about once", {"cohort": SELDOM}, "-seldom")
            for name in COMPARED
            if name != "FedAvg"
        ),
        *(
            better_than_fedavg(name, "Where a client takes part four or five times", {"cohort": OFTEN}, "-often")
            for name in COMPARED
            if name != "FedAvg"
        ),
    ),
)
