"""Figure 8: GHBM on the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from driftless.papers.ghbm.measures import QUALITY, accuracy_curves, scores_by_setting
from driftless.papers.ghbm.settings import FASHION_MNIST, NON_IID, REDUCED, TWO_NETWORKS, paper_cell, small_cell
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome, above

SERVER_SIDE = "GHBM on the server"


def client_and_server_side(cell: Callable[..., Cell], tasks: Sequence[str]) -> Iterator[Cell]:
    """GHBM in the local steps and on the server, and both their relatives."""
    for task in tasks:
        for name in ("FedAvg", "FedAvgM"):
            yield cell(alpha=NON_IID, name=name, task=task)
        plain = cell(alpha=NON_IID, name="GHBM", task=task)
        yield plain
        yield Cell(
            {**plain.at, "algorithm": SERVER_SIDE},
            {**plain.settings, "algorithm.name": "server-ghbm"},
            None,
            plain.grid,
        )


def client_side_leads(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, "GHBM", SERVER_SIDE):
        yield above(f"{where}: in the local steps over on the server, less half a point", scores["GHBM"],
                    scores[SERVER_SIDE] - 0.5, unit=" %")  # fmt: skip


def depends_on_network(outcome: Outcome) -> Iterable[Check]:
    losses = {
        where: scores["GHBM"] - scores[SERVER_SIDE] for where, scores in scores_by_setting(outcome, "GHBM", SERVER_SIDE)
    }
    text = ", ".join(f"{where} {loss:.1f}" for where, loss in losses.items())
    close = [loss <= 2 for loss in losses.values()]
    yield Check(f"points lost on the server: {text}", any(close) and not all(close))


FIGURE_8 = Experiment(
    name="figure-8",
    title="GHBM on the server",
    where="Figure 8, appendix C.8",
    about="GHBM as an optimiser of the server, with plain SGD on the clients, beside GHBM in the local steps, at α = "
    "0 with a CNN and a ResNet-20.",
    paper=Setup(tuple(client_and_server_side(paper_cell, TWO_NETWORKS)), seeds=5),
    small=Setup(
        tuple(client_and_server_side(small_cell, (FASHION_MNIST, "Fashion-MNIST, logistic"))),
        reduced=REDUCED + " Logistic regression is the second model.",
    ),
    measure=QUALITY,
    figure=accuracy_curves,
    claims=(
        Claim(
            "client-side",
            "Momentum belongs in the local steps: GHBM on the server is not better on any network.",
            "For each model GHBM in the local steps is at most half a point below GHBM on the server.",
            client_side_leads,
        ),
        Claim(
            "network",
            "On one network GHBM on the server is nearly as good, on the other it is not.",
            "GHBM on the server loses at most two points with one of the models and more with another.",
            depends_on_network,
        ),
    ),
)
