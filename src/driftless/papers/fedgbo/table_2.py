"""Table 2: communication and memory."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from driftless.papers.fedgbo.cost_experiments import DERIVED_MAP, cost_table, derived
from driftless.papers.fedgbo.costs import FACTORIES
from driftless.reproduce.checks import Check, exact, within
from driftless.reproduce.experiment import Claim
from driftless.reproduce.outcome import Outcome


def uploads(outcome: Outcome) -> Iterable[Check]:
    for optimiser in ("sgdm", "adam"):
        ups = {name: derived(outcome, name, f"upload, {optimiser}") for name in FACTORIES}
        yield within(f"vectors uploaded by FedGBO, {optimiser}", ups["fedgbo"], min(ups.values()), 0)
        for name in ("mfl", "mimelite"):
            text = f"vectors uploaded, {name} against FedGBO, {optimiser}: {ups[name]:g} against {ups['fedgbo']:g}"
            yield exact(text, ups[name] > ups["fedgbo"])


def downloads(outcome: Outcome) -> Iterable[Check]:
    for name, (optimiser, times) in product(("fedgbo", "mfl", "mimelite"), (("sgdm", 2), ("adam", 3))):
        downs = [derived(outcome, one, f"download, {optimiser}") for one in (name, "fedavg")]
        yield within(f"download of {name} with {optimiser}, divided by FedAvg's", downs[0] / downs[1], times, 0)


def one_needs_full_gradients(outcome: Outcome) -> Iterable[Check]:
    for name in FACTORIES:
        wanted = 1 if name == "mimelite" else 0
        yield within(f"full gradients of {name}", derived(outcome, name, "full gradient, sgdm"), wanted, 0)


TABLE_2 = cost_table(
    "table-2",
    ["FedGBO Table 2"],
    DERIVED_MAP,
    "Communication and memory",
    "Table 2, sections 2 and 4.1",
    "Vectors of the model's size that a client receives, sends and holds, counted by rehearsing a round of each "
    "algorithm with SGDm and with Adam.",
    Claim(
        "upload",
        "FedGBO uploads as little as FedAvg and AdaptiveFedOpt, and less than MFL and Mimelite.",
        "The vectors uploaded by FedGBO are the fewest of all, those of MFL and Mimelite more.",
        uploads,
        paper="x by FedGBO; x, s by MFL; x, ∇f by Mimelite",
    ),
    Claim(
        "download",
        "With RMSProp and SGDm the download doubles, with Adam it triples.",
        "Vectors downloaded by FedGBO, MFL and Mimelite, divided by FedAvg's, are 2 and 3.",
        downloads,
        paper="“doubled, and tripled for Adam”",
    ),
    Claim(
        "full-gradient",
        "Only Mimelite needs full-batch gradients.",
        "One for Mimelite, none for the others.",
        one_needs_full_gradients,
        paper="“Yes” for Mimelite alone",
    ),
)
