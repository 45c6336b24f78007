"""On large-cohort training: every experiment of the paper, its published numbers, and how its claims are judged."""

from __future__ import annotations

from driftless.papers.large_cohort.figure_1 import FIGURE_1
from driftless.papers.large_cohort.figure_2 import FIGURE_2
from driftless.papers.large_cohort.figure_3 import FIGURE_3
from driftless.papers.large_cohort.figure_4 import FIGURE_4
from driftless.papers.large_cohort.figure_5 import FIGURE_5
from driftless.papers.large_cohort.figure_6 import FIGURE_6
from driftless.papers.large_cohort.figure_7 import FIGURE_7
from driftless.papers.large_cohort.figure_8 import FIGURE_8
from driftless.papers.large_cohort.figure_9 import FIGURE_9
from driftless.papers.large_cohort.figure_10 import FIGURE_10
from driftless.papers.large_cohort.figure_36 import FIGURE_36
from driftless.papers.large_cohort.figure_37 import FIGURE_37
from driftless.papers.large_cohort.figure_42 import FIGURE_42
from driftless.papers.large_cohort.figures_20_24 import FIGURES_20_24
from driftless.papers.large_cohort.figures_25_28 import FIGURES_25_28
from driftless.papers.large_cohort.figures_29_35 import FIGURES_29_35
from driftless.papers.large_cohort.tables_4_5 import TABLES_4_5
from driftless.reproduce.experiment import Paper

LARGE_COHORT = Paper(
    name="large-cohort",
    title="On large-cohort training for federated learning",
    citation="Charles, Garrett, Huo, Shmulyian, Smith, NeurIPS 2021, arXiv:2106.07820.",
    experiments=(
        FIGURE_1,
        FIGURE_2,
        FIGURE_3,
        FIGURE_4,
        FIGURE_5,
        FIGURE_6,
        FIGURE_7,
        FIGURE_8,
        FIGURE_9,
        FIGURE_10,
        FIGURES_20_24,
        FIGURES_25_28,
        FIGURES_29_35,
        FIGURE_36,
        FIGURE_37,
        FIGURE_42,
        TABLES_4_5,
    ),
    notes=(
        "At the paper's scale a fifth of the clients is held out for the search, also of Stack Overflow's, whose own "
        "validation clients are not read here.",
        "The paper names two cohort sizes for the search of learning rates, 50 (section 2.1) and 10 (appendix A.4); "
        "we take 50. One set of learning rates serves all cohort sizes.",
        "The server's warm-up starts from the unscaled rate in section 5.1 and from zero in appendix B.7; we take "
        "zero.",
        "Accuracies at the end are means over the last tenth of the evaluations, or of the rounds.",
        "Training accuracy is that of the model which is sent out, on the training data of the round's cohort.",
        "The norm of the mean update is taken after clipping, as the server sees it.",
        "At the paper's scale, EMNIST is `femnist` with the files of TensorFlow Federated. CIFAR-100's test images "
        "are not divided among clients here: for tables 6-9, 100 of its 500 clients are held out as test clients.",
        "Cohort sizes of the figures that the text does not list are those of tables 6-9, and 1.",
    ),
)
