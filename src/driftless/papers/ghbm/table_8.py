"""Table 8: all methods on CIFAR-10."""

from __future__ import annotations

from driftless.papers.ghbm.all_methods import CIFAR_METHODS, COMPARISON_CLAIMS, table_cells
from driftless.papers.ghbm.measures import QUALITY, SELECTION
from driftless.papers.ghbm.settings import CIFAR_REDUCED, IID, NON_IID, REDUCED, cifar_cell, small_cell, small_setup
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
    small=small_setup(
        (
            *(cifar_cell("CIFAR-10, small CNN", name) for name in (*CIFAR_METHODS, "AdaBest")),
            *(small_cell(NON_IID, name) for name in PUBLISHED["accuracy"]),
            *(small_cell(IID, name) for name in PUBLISHED["accuracy"] if name != "FedProx"),
        ),
        reduced=f"{REDUCED} FedProx is left out on iid data. Also {CIFAR_REDUCED.format('CIFAR-10')}",
        most_seeds=4,
    ),
    measure=QUALITY,
    selection=SELECTION,
    claims=COMPARISON_CLAIMS,
)
