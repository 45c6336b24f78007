"""Figures 29-35: norms of the mean update of all algorithms."""

from __future__ import annotations

from driftless.papers.large_cohort.measures import curve_panels
from driftless.papers.large_cohort.settings import LOCAL_STEPS, STUDIED, paper_setup, small_setup
from driftless.papers.large_cohort.update_norms import LATE_NORM, ORDERED_RULE, fedsgd_shrinks_less, ordered_by_cohort
from driftless.reproduce.experiment import Claim, Experiment

FIGURES_29_35 = Experiment(
    name="figures-29-35",
    title="Norms of the mean update of all algorithms",
    where="Figures 29-35, appendix B.6",
    about="As figure 6, for seven algorithms.",
    paper=paper_setup(*STUDIED),
    small=small_setup(*STUDIED),
    measure=LATE_NORM,
    columns="cohort",
    claims=(
        Claim(
            "stratified",
            "With local training the norm is ordered by the cohort size, whatever the server's optimiser; FedAdagrad "
            "on EMNIST is the exception.",
            f"{ORDERED_RULE}, on average over tasks, algorithms and sizes.",
            ordered_by_cohort(*LOCAL_STEPS),
            "average",
            paper='"effectively stratified by the cohort size" (B.6); drawn',
        ),
        Claim(
            "fedsgd-overlaps",
            "FedSGD differs from all others: its norms overlap across cohort sizes.",
            "From M = 50 (small scale: 20) to the largest cohort the norm shrinks by a smaller factor for FedSGD than "
            "for the other algorithms, on average over them and the tasks.",
            fedsgd_shrinks_less,
            "average",
            paper='"significant overlap" for FedSGD (B.6); drawn',
        ),
    ),
    figure=curve_panels("FedSGD", "FedAdam", "FedLamb", key="norm_update", log=True),
)  # fmt: skip
