"""Figure 1: FEMNIST with 10 local steps."""

from __future__ import annotations

from driftless.papers.fedgbo.rows import figure_row, little_benefit
from driftless.reproduce.experiment import Claim

FIGURE_1_FEMNIST = figure_row(
    1,
    "FEMNIST",
    (
        Claim(
            "little-benefit",
            "On this simple task the adaptive algorithms gain little over FedAvg.",
            "The highest accuracy of each combination is less than one point above FedAvg's.",
            little_benefit(),
            paper="“little benefit over FedAvg”, drawn",
        ),
    ),
)
