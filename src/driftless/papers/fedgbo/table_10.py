"""Table 10: operations of a client in a round of 50 local steps."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.fedgbo.cost_experiments import RATIO_MAP, cost_table, derived
from driftless.reproduce.checks import Check, exact, within
from driftless.reproduce.experiment import Claim
from driftless.reproduce.outcome import Outcome


def five_times(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.values["cells"]:
        if one["table"] == "FedGBO Table 10":
            ten = derived(outcome, one["algorithm"], one["column"], "FedGBO Table 4")
            text = f"{one['algorithm']}, {one['column']}, K = 50 divided by K = 10"
            times = one["derived"] / ten
            if one["algorithm"] == "mimelite":
                yield exact(f"{text}: {times:.3g}, less than 5", times < 5)
            else:
                yield within(text, times, 5, 1e-9)


TABLE_10 = cost_table(
    "table-10",
    ["FedGBO Table 4", "FedGBO Table 10"],
    RATIO_MAP,
    "Operations of a client in a round, 50 local steps",
    "Table 10, appendix C",
    "Table 4 again, beside the same for 50 local steps.",
    Claim(
        "five-times",
        "With 50 local steps everything costs exactly five times as much, only Mimelite less than that.",
        "Operations with K = 50 divided by those with K = 10: 5, and below 5 for Mimelite.",
        five_times,
        paper="“precisely 5×”; Mimelite 1.2 to 4.3 times",
    ),
)
