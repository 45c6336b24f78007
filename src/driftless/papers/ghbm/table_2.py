"""Table 2: all methods on CIFAR-100 and Shakespeare."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.ghbm.all_methods import COMPARISON_CLAIMS, FEDCM_ALL_CLIENTS, HEAVY_BALL, table_cells
from driftless.papers.ghbm.measures import QUALITY, scores_by_setting
from driftless.papers.ghbm.settings import IID, NON_IID, REDUCED, small_cell
from driftless.reproduce.experiment import Check, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome
from driftless.reproduce.published import published

PUBLISHED = published(__file__, "table_2")


def upper_bound(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, FEDCM_ALL_CLIENTS, *HEAVY_BALL):
        best = max(scores[name] for name in HEAVY_BALL)
        bound = scores[FEDCM_ALL_CLIENTS]
        yield Check(
            f"{where}: FedCM with all clients {bound:.1f} %, best of LocalGHBM and FedHBM {best:.1f} %",
            bound - 2 <= best <= bound + 1,
        )


UPPER_CLAIM = Claim(
    "upper-bound",
    "With 10 % participation the GHBM methods come close to FedCM with full participation, an upper bound for "
    "momentum.",
    "In each setting the better of the two is at most 2 points below and 1 point above FedCM with all clients.",
    upper_bound,
)
SMALL_TABLE_2 = ("FedAvg", "SCAFFOLD", "FedAvgM", "FedCM", "MimeMom", FEDCM_ALL_CLIENTS, *HEAVY_BALL)
TABLE_2 = Experiment(
    name="table-2",
    title="All methods on CIFAR-100 and Shakespeare",
    where="Table 2, section 5.3",
    about="Fifteen methods on CIFAR-100 with a ResNet-20 (10,000 rounds) and a CNN (20,000 rounds) and on Shakespeare "
    "with an LSTM (250 rounds), non-iid and iid, 10 of 100 clients a round; five seeds.",
    paper=Setup(table_cells(PUBLISHED), seeds=5),
    small=Setup(
        tuple(small_cell(NON_IID, name, task="CIFAR-100, MLP") for name in ("FedAvg", "SCAFFOLD", "FedCM", *HEAVY_BALL))
        + tuple(small_cell(NON_IID, name) for name in SMALL_TABLE_2)
        + tuple(small_cell(IID, name) for name in SMALL_TABLE_2 if name != FEDCM_ALL_CLIENTS),
        reduced="The methods that matter most, without Shakespeare: on CIFAR-100 with an MLP at α = 0 and on "
        "Fashion-MNIST. " + REDUCED,
    ),
    measure=QUALITY,
    claims=(*COMPARISON_CLAIMS, UPPER_CLAIM),
)
