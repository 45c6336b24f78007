"""All methods beside each other: what Tables 2 and 8 share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from driftless.papers.ghbm.measures import scores_by_setting
from driftless.papers.ghbm.settings import FEDCM_ALL_CLIENTS, IID, NON_IID, paper_cell
from driftless.reproduce.checks import Check, above
from driftless.reproduce.experiment import Cell, Claim
from driftless.reproduce.outcome import Outcome, rivals
from driftless.reproduce.published import as_number

HEAVY_BALL = ("LocalGHBM", "FedHBM")
CLASSICAL_MOMENTUM = ("FedCM", "FedADC")
CIFAR_METHODS = ("FedAvg", "SCAFFOLD", "FedAvgM", "FedCM", "MimeMom", *HEAVY_BALL)
"""At small scale."""


def table_cells(table: Mapping[str, Any]) -> tuple[Cell, ...]:
    return tuple(
        paper_cell(task, labels, name, as_number(pair))
        for name, row in table["accuracy"].items()
        for (task, labels), pair in zip(table["columns"], row, strict=True)
    )


def heavy_ball_leads(labels: str, slack: float) -> Callable[[Outcome], Iterable[Check]]:
    """LocalGHBM and FedHBM against everybody but each other and FedCM with all clients."""

    def checks(outcome: Outcome) -> Iterable[Check]:
        for name in HEAVY_BALL:
            yield from rivals(outcome.part(labels=labels), name, slack, but=(*HEAVY_BALL, FEDCM_ALL_CLIENTS))

    return checks


def margin_over_fedavg(points: float) -> Callable[[Outcome], Iterable[Check]]:
    def checks(outcome: Outcome) -> Iterable[Check]:
        for where, scores in scores_by_setting(outcome.part(labels=NON_IID), "FedHBM", "FedAvg"):
            yield above(f"{where}: FedHBM over FedAvg", scores["FedHBM"], scores["FedAvg"], by=points, unit=" %")

    return checks


def classical_lags(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome.part(labels=NON_IID), "FedCM", "FedHBM", "FedAvg"):
        half = (scores["FedHBM"] - scores["FedAvg"]) / 2
        for name in CLASSICAL_MOMENTUM:
            if name in scores:
                what = f"{where}: half of FedHBM's gain over FedAvg, over the gain of {name}"
                yield above(what, half, scores[name] - scores["FedAvg"], unit=" points")


COMPARISON_CLAIMS = (
    Claim(
        "best-non-iid",
        "Under worst-case heterogeneity LocalGHBM and FedHBM are ahead of all other methods.",
        "At α = 0 (or with one role a client) the quality of each is higher than that of every other method with 10 % "
        "participation.",
        heavy_ball_leads(NON_IID, 0.0),
    ),
    Claim(
        "best-iid",
        "They are also the best on iid data, where methods differ little.",
        "With iid data the quality of each is higher than that of every other method with 10 % participation, or lower "
        "by less than 0.5 points.",
        heavy_ball_leads(IID, 0.5),
    ),
    Claim(
        "margin",
        "FedHBM improves FedAvg by a large margin under worst-case heterogeneity.",
        "At α = 0 FedHBM's quality exceeds FedAvg's by more than 3 points.",
        margin_over_fedavg(3),
    ),
    Claim(
        "classical",
        "Classical momentum on the clients (FedCM, FedADC) does little against extreme heterogeneity.",
        "At α = 0 each gains over FedAvg less than half of what FedHBM gains.",
        classical_lags,
    ),
)
