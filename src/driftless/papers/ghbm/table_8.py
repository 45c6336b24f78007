"""Table 8: all methods on CIFAR-10."""

from __future__ import annotations

from driftless.papers.ghbm.all_methods import COMPARISON_CLAIMS, table_cells
from driftless.papers.ghbm.measures import QUALITY
from driftless.papers.ghbm.settings import IID, NON_IID, REDUCED, small_cell
from driftless.reproduce.experiment import Experiment, Setup
from driftless.reproduce.published import published

PUBLISHED = published(__file__, "table_8")
TABLE_8 = Experiment(
    name="table-8",
    title="All methods on CIFAR-10",
    where="Table 8, appendix C.6",
    about="Thirteen methods on CIFAR-10 with a ResNet-20 (10,000 rounds) and a CNN (20,000 rounds), one class a "
    "client or iid, 10 of 100 clients a round, hyper-parameters searched for each method; five seeds.",
    paper=Setup(table_cells(PUBLISHED), seeds=5),
    small=Setup(
        tuple(small_cell(NON_IID, name) for name in PUBLISHED["accuracy"])
        + tuple(small_cell(IID, name) for name in PUBLISHED["accuracy"] if name != "FedProx"),
        reduced=REDUCED + " FedProx is left out on iid data.",
    ),
    measure=QUALITY,
    claims=COMPARISON_CLAIMS,
)
