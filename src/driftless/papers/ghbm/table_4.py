"""Table 4: what it costs to reach FedAvg's quality."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from driftless.papers.ghbm.measures import QUALITY, SELECTION, Scores, last_rounds, setting_text
from driftless.papers.ghbm.quadratics import Values
from driftless.papers.ghbm.settings import NON_IID, REDUCED, paper_cell, small_cell, small_setup
from driftless.papers.ghbm.table_3 import large_cell
from driftless.report.curves import Run
from driftless.report.metrics import AXES
from driftless.reproduce.checks import Check, below, renamed, within
from driftless.reproduce.costs import CostCell, Reasons, exchanged, explained
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import Outcome, cost_to_reach
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
    spends with the same seed; the whole budget where it never does. The paper's procedure (appendix C.3)."""
    for rest, results in outcome.groups("algorithm"):
        runs = {str(one.cell.at["algorithm"]): one for one in results}
        if "FedAvg" not in runs:
            continue
        targets, budgets = last_rounds(runs["FedAvg"]), runs["FedAvg"].of_runs(lambda run: whole_cost(run, axis))
        shares = {
            name: np.array([spent(*pair, axis) for pair in zip(one.runs, targets, strict=True)]) / budgets
            for name, one in runs.items()
            if name != "FedAvg"
        }
        yield setting_text(rest), {"FedAvg": np.ones(len(budgets)), **shares}


def spent(run: Run, target: float, axis: str) -> float:
    return min(cost_to_reach(run, target, axis=axis), whole_cost(run, axis))


def whole_cost(run: Run, axis: str) -> float:
    """Over the whole run."""
    return float(run.total(AXES[axis])[-1])


def cheapest(outcome: Outcome) -> Iterable[Check]:
    for where, shares in cost_shares(outcome, "megabytes"):
        for name, dearer in (("FedHBM", shares.keys() - {"FedHBM"}), ("GHBM", shares.keys() - {"GHBM", "FedHBM"})):
            for other in sorted(dearer):
                what = f"{where}, per cent of FedAvg's bytes: {name}, {other}"
                yield below(what, 100 * shares[name], 100 * shares[other], unit=" points")


def saves_half(axis: str, what: str) -> Callable[[Outcome], Iterable[Check]]:
    def checks(outcome: Outcome) -> Iterable[Check]:
        for where, shares in cost_shares(outcome, axis):
            text = f"{where}: per cent of FedAvg's {what} that FedHBM needs, half"
            yield below(text, 100 * shares["FedHBM"], 50.0, unit=" points")

    return checks


def overhead_checks(outcome: Outcome) -> Iterable[Check]:
    for name, (printed, derived, why) in outcome.values.items():
        check = within(f"{name}, vectors a round in units of FedAvg's", derived, printed, 0.02)
        yield from renamed(why, [check]) if why else [check]


def savings(name: str, unit: str) -> str:
    """As the paper prints them."""
    each = (f"{saving(name, column, unit):.0f} % ({title})" for column, title in enumerate(COLUMNS))
    return f"{name} saves " + ", ".join(each)


def over_megabytes(outcome: Outcome) -> list[Panel]:
    return curves(outcome, "test_accuracy", by="data", axis="megabytes", labels=NON_IID)


TABLE_4 = Experiment(
    name="table-4",
    title="What it costs to reach FedAvg's quality",
    where="Table 4, section 5.3 and appendix C.3",
    about="Bytes exchanged and computing until the final quality of FedAvg is reached, on CIFAR-100 at α = 0 and on "
    "GLDv2.",
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
    small=small_setup(
        (small_cell(NON_IID, name) for name in METHODS),
        reduced=REDUCED + " Computing is counted in examples processed, not in hours.",
    ),
    study=overheads,
    measure=QUALITY,
    selection=SELECTION,
    figure=over_megabytes,
    claims=(
        Claim(
            "overhead",
            "A round of SCAFFOLD, MimeMom and GHBM exchanges 2, 3 and 1.5 times what FedAvg exchanges; FedHBM "
            "exchanges no more than FedAvg.",
            "The vectors that our implementations send agree with the column for the overhead within 2 %.",
            overhead_checks,
            kind="count",
            paper="2x, 3x, 1.5x and 1x",
        ),
        Claim(
            "bytes",
            "FedHBM needs the fewest bytes to reach FedAvg's quality, GHBM is next.",
            "Until FedAvg's quality, that of the same seed, is first reached, FedHBM sends less than each other "
            "method, and GHBM less than each other but FedHBM; all bytes of the run count where it is never reached.",
            cheapest,
            paper=f"{savings('FedHBM', 'gigabytes')}; {savings('GHBM', 'gigabytes')}",
        ),
        Claim(
            "bytes-saved",
            "FedHBM saves two thirds of FedAvg's communication on average.",
            "FedHBM reaches FedAvg's quality with less than half of the bytes that FedAvg sends in the whole training, "
            "on average over the settings.",
            saves_half("megabytes", "bytes"),
            decided_by="average",
            paper=savings("FedHBM", "gigabytes"),
        ),
        Claim(
            "computing-saved",
            "FedHBM saves more than half of FedAvg's computing on average.",
            "FedHBM reaches FedAvg's quality with less than half of the examples that FedAvg processes, on average "
            "over the settings.",
            saves_half("examples", "examples"),
            decided_by="average",
            paper=savings("FedHBM", "minutes"),
        ),
    ),
)  # fmt: skip
