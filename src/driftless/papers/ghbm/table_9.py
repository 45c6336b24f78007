"""Table 9: cyclic and uniform participation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from driftless.papers.ghbm.measures import QUALITY, SELECTION, scores_by_setting
from driftless.papers.ghbm.settings import FASHION_MNIST, NON_IID, paper_cell, small_cell, small_setup
from driftless.reproduce.checks import Check, above, close
from driftless.reproduce.experiment import Cell, Claim, Experiment, Number, Setup
from driftless.reproduce.outcome import Outcome
from driftless.reproduce.published import published

PUBLISHED = published(__file__, "table_9")
SCHEDULES: dict[str, Any] = {"uniform": 10, "cyclic": "cyclic:10"}


def participation_cells(cell: Callable[..., Cell], task: str, with_published: bool) -> Iterator[Cell]:
    for schedule, row in PUBLISHED.items():
        for name, pair in row.items():
            at = {"participation": schedule, "algorithm": name}
            more = {"published": Number(*pair)} if with_published else {}
            yield cell(alpha=NON_IID, name=name, task=task, at=at, run_cohort=SCHEDULES[schedule], **more)


def ghbm_over_fedcm(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, "GHBM", "FedCM"):
        yield above(f"{where}: GHBM over FedCM", scores["GHBM"], scores["FedCM"], by=3, unit=" %")


def participation_hardly_matters(outcome: Outcome) -> Iterable[Check]:
    for name in ("GHBM", "FedCM"):
        cyclic, uniform = (
            outcome.measured(outcome.one(participation=p, algorithm=name)) for p in ("cyclic", "uniform")
        )
        yield from close(f"{name}: cyclic participation, uniform", cyclic, uniform, margin=3, unit=" %")


TABLE_9 = Experiment(
    name="table-9",
    title="Cyclic and uniform participation",
    where="Table 9, appendix C.9",
    about="FedCM and GHBM on CIFAR-100 with a ResNet-20 at α = 0, with clients drawn uniformly and in a fixed order.",
    paper=Setup(tuple(participation_cells(paper_cell, "CIFAR-100, ResNet-20", True)), seeds=5),
    small=small_setup(participation_cells(small_cell, FASHION_MNIST, False)),
    measure=QUALITY,
    selection=SELECTION,
    claims=(
        Claim(
            "not-equivalent",
            "FedCM does not attain GHBM's quality, not even with cyclic participation.",
            "With both kinds of participation GHBM's quality is more than 3 points above FedCM's.",
            ghbm_over_fedcm,
        ),
        Claim(
            "cyclic-not-needed",
            "Cyclic participation, which the theory assumes, is not needed in practice.",
            "The quality of each method with cyclic and with uniform participation differs by less than 3 points.",
            participation_hardly_matters,
        ),
    ),
)
