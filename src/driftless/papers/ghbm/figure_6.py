"""Figure 6: rounds to 70 % accuracy at all degrees of heterogeneity."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.ghbm.alpha_sweep import ABOUT_ALPHA, ALPHAS, SMALL_ALPHAS, alpha_cells, over_alpha, scores_at
from driftless.papers.ghbm.settings import FASHION_MNIST, REDUCED, TWO_NETWORKS, paper_cell, small_cell
from driftless.reproduce.experiment import Check, Claim, Experiment, Number, Setup
from driftless.reproduce.outcome import Measure, Outcome, Result, above, cost_to_reach, number, winner


def rounds_to_70(result: Result) -> Number:
    """The whole budget where it is never reached, as in appendix C.3."""
    return number([min(cost_to_reach(run, 0.7), run.budget) for run in result.runs])


ROUNDS_TO_70 = Measure("rounds to 70 % test accuracy (the budget where never)", rounds_to_70, better="low", digits=0)


def fastest_two(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_at(outcome, lowest=True):
        ranked = sorted(scores, key=lambda name: scores[name])
        text = ", ".join(f"{name} {scores[name]:.0f}" for name in ranked)
        slower = min(score for name, score in scores.items() if name not in ("MimeMom", "FedHBM"))
        yield Check(f"{where}: {text}", max(scores["MimeMom"], scores["FedHBM"]) < slower)


def mimemom_not_faster(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_at(outcome, lowest=False):
        for name in ("FedAvg", "FedAvgM"):
            yield above(f"{where}: rounds of MimeMom against 80 % of {name}'s", scores["MimeMom"], 0.8 * scores[name])


FIGURE_6 = Experiment(
    name="figure-6",
    title="Rounds to 70 % accuracy at all degrees of heterogeneity",
    where="Figure 6, appendix C.6",
    about=ABOUT_ALPHA + "The rounds until the test accuracy first reaches 70 %, with a CNN.",
    paper=Setup(alpha_cells(paper_cell, TWO_NETWORKS[:1], ALPHAS), seeds=5),
    small=Setup(alpha_cells(small_cell, (FASHION_MNIST,), SMALL_ALPHAS), reduced=REDUCED),
    measure=ROUNDS_TO_70,
    figure=over_alpha,
    claims=(
        Claim(
            "pathological",
            "MimeMom and FedHBM are the fastest when every client has one class.",
            "At α = 0 these two need the fewest rounds.",
            fastest_two,
        ),
        Claim(
            "mimemom",
            "With less extreme heterogeneity MimeMom is not significantly faster than FedAvg and FedAvgM.",
            "At each α above 0 MimeMom needs more than 80 % of the rounds of each.",
            mimemom_not_faster,
        ),
        Claim(
            "fedhbm",
            "FedHBM is the fastest in all cases.",
            "At each α FedHBM needs at most 5 rounds (the distance of two evaluations) more than the fastest.",
            lambda outcome: winner(outcome, "FedHBM", slack=5),
        ),
    ),
)
