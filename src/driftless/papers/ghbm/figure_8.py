"""Figure 8: GHBM on the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from driftless.papers.ghbm.measures import QUALITY, SELECTION, accuracy_curves, scores_by_setting
from driftless.papers.ghbm.settings import (
    NON_IID,
    SMALL_NETWORKS,
    TWO_NETWORKS,
    TWO_NETWORKS_REDUCED,
    paper_cell,
    small_cell,
    small_setup,
)
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome

SERVER_SIDE = "GHBM on the server"


def client_and_server_side(cell: Callable[..., Cell], tasks: Sequence[str]) -> Iterator[Cell]:
    """GHBM in the local steps and on the server, and both their relatives."""
    for task in tasks:
        for name in ("FedAvg", "FedAvgM"):
            yield cell(alpha=NON_IID, name=name, task=task)
        plain = cell(alpha=NON_IID, name="GHBM", task=task)
        yield plain
        settings = {**plain.settings, "algorithm.name": "server-ghbm"}
        yield replace(plain, at={**plain.at, "algorithm": SERVER_SIDE}, settings=settings)


def client_side_leads(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, "GHBM", SERVER_SIDE):
        what = f"{where}: in the local steps, on the server"
        yield above(what, scores["GHBM"], scores[SERVER_SIDE], by=-0.5, unit=" %")


def server_side_is_close(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, "GHBM", SERVER_SIDE):
        yield below(f"{where}: points lost on the server", scores["GHBM"] - scores[SERVER_SIDE], 2, unit=" points")


def server_side_is_far(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, "GHBM", SERVER_SIDE):
        yield above(f"{where}: points lost on the server", scores["GHBM"] - scores[SERVER_SIDE], 2, unit=" points")


FIGURE_8 = Experiment(
    name="figure-8",
    title="GHBM on the server",
    where="Figure 8, appendix C.8",
    about="GHBM as an optimiser of the server, with plain SGD on the clients, beside GHBM in the local steps, at α = "
    "0 with a CNN and a ResNet-20.",
    paper=Setup(tuple(client_and_server_side(paper_cell, TWO_NETWORKS)), seeds=5),
    small=small_setup(client_and_server_side(small_cell, SMALL_NETWORKS), reduced=TWO_NETWORKS_REDUCED, most_seeds=4),
    measure=QUALITY,
    selection=SELECTION,
    figure=accuracy_curves,
    claims=(
        Claim(
            "client-side",
            "Momentum belongs in the local steps: GHBM on the server is not better on any network.",
            "With each network the quality of GHBM in the local steps is higher than on the server, or lower by less "
            "than half a point.",
            client_side_leads,
            paper='drawn: "necessity of integrating drift correction locally"',
        ),
        Claim(
            "close-on-one",
            "On one network GHBM on the server is nearly as good.",
            "There is a network with which it loses less than two points against GHBM in the local steps.",
            server_side_is_close,
            decided_by="any",
            paper='drawn: "very close", the ResNet-20',
        ),
        Claim(
            "far-on-another",
            "On another network it is not.",
            "There is a network with which it loses more than two points.",
            server_side_is_far,
            decided_by="any",
            paper='drawn: "not the same improvement", the CNN',
        ),
    ),
)
