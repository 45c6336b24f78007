"""Table 4: what it costs to reach FedAvg's quality."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from driftless.papers.ghbm.measures import QUALITY, Scores, last_rounds, setting_text
from driftless.papers.ghbm.quadratics import Values
from driftless.papers.ghbm.settings import NON_IID, REDUCED, paper_cell, small_cell
from driftless.papers.ghbm.table_3 import large_cell
from driftless.reproduce.costs import CostCell, Reasons, exchanged, explained
from driftless.reproduce.experiment import Check, Claim, Experiment, Setup
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import Outcome, Result, below, within
from driftless.reproduce.published import published

PUBLISHED = published(__file__, "table_4")
COLUMNS = PUBLISHED["columns"]
METHODS = tuple(PUBLISHED["gigabytes"])
DIFFERENCES: Reasons = {
    ("GHBM Table 4", "mimemom", "overhead"): (
        "x, m, c down and the full gradient and y up are five vectors, 2.5x; the paper's 3x is six and does not say "
        "which one travels twice"
    ),
}


def saving(name: str, column: int, unit: str) -> float:
    """What Table 4 prints: the share of FedAvg's "gigabytes" or "minutes" that is saved, in per cent."""
    cost = PUBLISHED[unit]
    return 100 * (1 - cost[name][column] / cost["FedAvg"][column])


def cost_comparison() -> list[CostCell]:
    """The overhead is the vectors exchanged, divided by FedAvg's."""
    cells = [
        CostCell("GHBM Table 4", name, "overhead", printed, exchanged(name) / exchanged("fedavg"))
        for name, printed in PUBLISHED["overhead"].items()
    ]
    return explained(cells, DIFFERENCES)


def overheads() -> Values:
    """Printed and derived vectors a round, in units of FedAvg's."""
    return {cell.algorithm: [cell.printed, cell.derived, cell.difference] for cell in cost_comparison()}


def cost_shares(outcome: Outcome, axis: str) -> Iterator[tuple[str, Scores]]:
    """Per setting, what each method spends until it first reaches FedAvg's quality, as a share of all that FedAvg
    spends; the whole budget where it never does. The paper's procedure (appendix C.3)."""
    for rest, results in outcome.groups("algorithm"):
        runs = {str(one.cell.at["algorithm"]): one for one in results}
        if "FedAvg" not in runs:
            continue
        target = last_rounds(runs["FedAvg"]).mean
        budget = whole_cost(runs["FedAvg"], axis)
        reached = {name: one.reach(target, axis=axis).mean for name, one in runs.items() if name != "FedAvg"}
        shares = {name: min(cost, whole_cost(runs[name], axis)) / budget for name, cost in reached.items()}
        yield setting_text(rest), {"FedAvg": 1.0, **shares}


def whole_cost(result: Result, axis: str) -> float:
    """Over the whole run."""
    if not any(not np.isnan(run.column("test_accuracy")).all() for run in result.runs):
        return math.nan
    places, _, _ = result.curve("test_accuracy", axis)
    return float(places[-1])


def cheapest(outcome: Outcome) -> Iterable[Check]:
    for where, shares in cost_shares(outcome, "megabytes"):
        text = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
        ranked = sorted(shares, key=lambda name: shares[name])
        yield Check(f"{where}, of FedAvg's bytes: {text}", ranked[0] == "FedHBM" and shares["FedHBM"] < 1)
        yield Check(f"{where}: GHBM is the next cheapest or equal to it", "GHBM" in ranked[:2])


def saves_half(axis: str, what: str) -> Callable[[Outcome], Iterable[Check]]:
    def checks(outcome: Outcome) -> Iterable[Check]:
        for where, shares in cost_shares(outcome, axis):
            yield below(f"{where}: share of FedAvg's {what} that FedHBM needs", shares["FedHBM"], 0.5)

    return checks


def overhead_checks(outcome: Outcome) -> Iterable[Check]:
    for name, (printed, derived, why) in outcome.values.items():
        check = within(f"{name}, vectors a round in units of FedAvg's", derived, printed, 0.02)
        yield Check(check.text + (f" ({why})" if why else ""), check.holds)


def over_megabytes(outcome: Outcome) -> list[Panel]:
    return curves(outcome, "test_accuracy", by="data", axis="megabytes", labels=NON_IID)


TABLE_4 = Experiment(
    name="table-4",
    title="What it costs to reach FedAvg's quality",
    where="Table 4, section 5.3 and appendix C.3",
    about="Bytes exchanged and computing until the final quality of FedAvg is reached, on CIFAR-100 at α = 0 and on "
    "GLDv2. The paper's savings of FedHBM in bytes: "
    + ", ".join(f"{saving('FedHBM', i, 'gigabytes'):.0f} % ({name})" for i, name in enumerate(COLUMNS))
    + ".",
    paper=Setup(
        tuple(paper_cell(task, NON_IID, name) for task in COLUMNS[:2] for name in METHODS)
        + tuple(
            replace(large_cell(setting, name, ()), at={"data": title, "labels": "by user", "algorithm": name})
            for title, setting in ((COLUMNS[2], "GLDv2, MobileNetV2, 0.79 %"),
                                   (COLUMNS[3], "GLDv2, ViT-B/16, 0.79 %"))
            for name in METHODS
        ),
        seeds=5,
    ),
    small=Setup(
        tuple(small_cell(NON_IID, name) for name in METHODS),
        reduced=REDUCED + " Computing is counted in examples processed, not in hours.",
    ),
    study=overheads,
    measure=QUALITY,
    figure=over_megabytes,
    claims=(
        Claim(
            "overhead",
            "A round of SCAFFOLD, MimeMom and GHBM exchanges 2, 3 and 1.5 times what FedAvg exchanges; FedHBM "
            "exchanges no more than FedAvg.",
            "The vectors that our implementations send agree with the column for the overhead within 2 %.",
            overhead_checks,
        ),
        Claim(
            "bytes",
            "FedHBM needs the fewest bytes to reach FedAvg's quality, GHBM is next.",
            "Until FedAvg's quality is first reached FedHBM sends the least of all methods; GHBM is among the first "
            "two.",
            cheapest,
        ),
        Claim(
            "bytes-saved",
            "FedHBM saves two thirds of FedAvg's communication on average.",
            "FedHBM reaches FedAvg's quality with less than half of the bytes that FedAvg sends in the whole training.",
            saves_half("megabytes", "bytes"),
        ),
        Claim(
            "computing-saved",
            "FedHBM saves more than half of FedAvg's computing on average.",
            "FedHBM reaches FedAvg's quality with less than half of the examples that FedAvg processes.",
            saves_half("examples", "examples"),
        ),
    ),
)  # fmt: skip
