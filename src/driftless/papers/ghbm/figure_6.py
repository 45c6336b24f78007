"""Figure 6: rounds to 70 % accuracy at all degrees of heterogeneity."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from driftless.papers.ghbm.alpha_sweep import (
    ABOUT_ALPHA,
    ALPHAS,
    SMALL_ALPHAS,
    alpha_cells,
    is_moderate,
    is_pathological,
    over_alpha,
    scores_at,
)
from driftless.papers.ghbm.measures import SELECTION
from driftless.papers.ghbm.settings import FASHION_MNIST, TWO_NETWORKS, paper_cell, small_cell, small_setup
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.outcome import Floats, Measure, Outcome, Result, cost_to_reach, rivals

FASTEST = ("MimeMom", "FedHBM")


def rounds_to_70(result: Result) -> Floats:
    """The whole budget where it is never reached, as in appendix C.3."""
    return result.of_runs(lambda run: min(cost_to_reach(run, 0.7), run.budget))


ROUNDS_TO_70 = Measure(
    "rounds to 0.7 test accuracy (the budget where it is never reached)", rounds_to_70, better="low", digits=0
)


def fastest_two(outcome: Outcome) -> Iterable[Check]:
    for task, _, scores in scores_at(outcome, is_pathological):
        for name, other in product(FASTEST, (name for name in scores if name not in FASTEST)):
            yield below(f"{task}, α=0: rounds of {name}, of {other}", scores[name], scores[other], unit=" rounds")


def mimemom_not_faster(outcome: Outcome) -> Iterable[Check]:
    for task, alpha, scores in scores_at(outcome, is_moderate):
        for name in ("FedAvg", "FedAvgM"):
            what = f"{task}, α={alpha:g}: rounds of MimeMom, 80 % of those of {name}"
            yield above(what, scores["MimeMom"], 0.8 * scores[name], unit=" rounds")


FIGURE_6 = Experiment(
    name="figure-6",
    title="Rounds to 70 % accuracy at all degrees of heterogeneity",
    where="Figure 6, appendix C.6",
    about=ABOUT_ALPHA + "The rounds until the test accuracy first reaches 70 %, with a CNN.",
    paper=Setup(alpha_cells(paper_cell, TWO_NETWORKS[:1], ALPHAS), seeds=5),
    small=small_setup(alpha_cells(small_cell, (FASHION_MNIST,), SMALL_ALPHAS)),
    measure=ROUNDS_TO_70,
    selection=SELECTION,
    figure=over_alpha,
    claims=(
        Claim(
            "pathological",
            "MimeMom and FedHBM are the fastest when every client has one class.",
            "At α = 0 each of these two needs fewer rounds than each of the other three.",
            fastest_two,
            paper='drawn: "the fastest when facing the pathological case"',
        ),
        Claim(
            "mimemom",
            "With less extreme heterogeneity MimeMom is not significantly faster than FedAvg and FedAvgM.",
            "MimeMom needs more than 80 % of the rounds of each, on average over both and all α from 0.5 on.",
            mimemom_not_faster,
            decided_by="average",
            paper='drawn: "not significantly faster"',
        ),
        Claim(
            "fedhbm",
            "FedHBM is the fastest in all cases.",
            "At each α FedHBM needs fewer rounds than each other method, or at most 5 (the distance of two "
            "evaluations) more.",
            lambda outcome: rivals(outcome, "FedHBM", slack=5),
            paper='drawn: "in all cases FedHBM performs best"',
        ),
    ),
)
