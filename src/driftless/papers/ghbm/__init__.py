"""GHBM: every experiment of the paper, its published numbers, and how its claims are judged."""

from __future__ import annotations

from driftless.papers.ghbm.appendix_c_5 import APPENDIX_C_5
from driftless.papers.ghbm.corollary_4_5 import COROLLARY_4_5
from driftless.papers.ghbm.figure_1 import FIGURE_1
from driftless.papers.ghbm.figure_2 import FIGURE_2
from driftless.papers.ghbm.figure_3 import FIGURE_3
from driftless.papers.ghbm.figure_4 import FIGURE_4
from driftless.papers.ghbm.figure_5 import FIGURE_5
from driftless.papers.ghbm.figure_6 import FIGURE_6
from driftless.papers.ghbm.figure_7 import FIGURE_7
from driftless.papers.ghbm.figure_8 import FIGURE_8
from driftless.papers.ghbm.figure_9 import FIGURE_9
from driftless.papers.ghbm.lemma_4_6 import LEMMA_4_6
from driftless.papers.ghbm.lemma_b_3 import LEMMA_B_3
from driftless.papers.ghbm.table_2 import TABLE_2
from driftless.papers.ghbm.table_3 import TABLE_3
from driftless.papers.ghbm.table_4 import TABLE_4
from driftless.papers.ghbm.table_5 import TABLE_5
from driftless.papers.ghbm.table_7 import TABLE_7
from driftless.papers.ghbm.table_8 import TABLE_8
from driftless.papers.ghbm.table_9 import TABLE_9
from driftless.papers.ghbm.theorem_4_7 import THEOREM_4_7
from driftless.reproduce.experiment import Paper

GHBM = Paper(
    name="ghbm",
    title="Communication-efficient heterogeneous federated learning with generalized heavy-ball momentum",
    citation="Zaccone, Masone, Ciccone, 2024, arXiv:2311.18578.",
    experiments=(
        FIGURE_1, FIGURE_2, TABLE_2, FIGURE_3, TABLE_3, TABLE_4, COROLLARY_4_5, LEMMA_4_6, THEOREM_4_7, FIGURE_4,
        LEMMA_B_3, TABLE_5, TABLE_7, APPENDIX_C_5, FIGURE_5, FIGURE_6, TABLE_8, FIGURE_7, FIGURE_8, FIGURE_9, TABLE_9,
    ),
    notes=(
        "GHBM's Algorithm 2 lacks the factor 1/lr before the momentum; `ghbm` has it. The weight β of Algorithm 3 "
        "(`ghbm-theory`) is one minus that of the main text. `ghbm` has no momentum during its first τ rounds, which "
        "the paper leaves open.",
        "LocalGHBM and FedHBM divide by the rounds since the client last took part, as the text says; the authors' "
        "public code divides by 1/C always.",
        "The heading of Table 2 says CIFAR-10 for the ResNet-20; the text and Table 9 have the same numbers for "
        "CIFAR-100.",
        "Where our copy of Table 7 does not show which value is bold (GHBM; FedHBM for ResNet-20 and Shakespeare), "
        "the paper scale searches again, and so it does for FedADC and SCAFFOLD-M, with FedAvg's and FedCM's learning "
        "rates, and for LocalGHBM with FedHBM's: these are not in the table.",
        "The values of Figures 1 to 10 are only drawn in the paper; they are judged by what the text says about them. "
        "The degrees α between 0 and 10,000 in Figures 3 and 6 are ours.",
        "Shakespeare's 100 roles are the first with 2,000 windows, of each the first 2,000: the paper does not say "
        "which it took. The batches of GLDv2 and iNaturalist and their 5,000 rounds follow from Table 6. Weights that "
        "were trained on ImageNet are read from files that the user provides (docs/models.md).",
    ),
)  # fmt: skip
