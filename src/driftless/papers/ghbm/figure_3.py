"""Figure 3: quality at all degrees of heterogeneity."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.ghbm.alpha_sweep import ABOUT_ALPHA, ALPHAS, SMALL_ALPHAS, alpha_cells, over_alpha, scores_at
from driftless.papers.ghbm.measures import QUALITY
from driftless.papers.ghbm.settings import FASHION_MNIST, REDUCED, TWO_NETWORKS, paper_cell, small_cell
from driftless.reproduce.experiment import Check, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome, above, below, winner


def momentum_over_scaffold(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_at(outcome, lowest=True):
        for name in ("MimeMom", "FedHBM"):
            yield above(f"{where}: {name} over SCAFFOLD", scores[name], scores["SCAFFOLD"], unit=" %")


def differences_vanish(outcome: Outcome) -> Iterable[Check]:
    for task in outcome.places("data"):
        part = outcome.part(data=task)
        spread = [max(scores.values()) - min(scores.values())
                  for lowest in (True, False) for _, scores in scores_at(part, lowest)]  # fmt: skip
        yield below(f"{task}: spread of the methods at the largest α, half of that at α=0", spread[-1], spread[0] / 2,
                    unit=" points")  # fmt: skip


FIGURE_3 = Experiment(
    name="figure-3",
    title="Quality at all degrees of heterogeneity",
    where="Figure 3, section 5.3 (left half of Figure 6)",
    about=ABOUT_ALPHA + "The quality of five methods with a CNN and a ResNet-20.",
    paper=Setup(alpha_cells(paper_cell, TWO_NETWORKS, ALPHAS), seeds=5),
    small=Setup(alpha_cells(small_cell, (FASHION_MNIST,), SMALL_ALPHAS), reduced=REDUCED),
    measure=QUALITY,
    figure=over_alpha,
    claims=(
        Claim(
            "always-best",
            "FedHBM is the best of the compared methods at every degree of heterogeneity.",
            "At each α FedHBM's quality is at most 0.5 points below the best.",
            lambda outcome: winner(outcome, "FedHBM", slack=0.5),
        ),
        Claim(
            "momentum",
            "At extreme heterogeneity momentum on the clients does better than variance reduction.",
            "At α = 0 MimeMom and FedHBM have a higher quality than SCAFFOLD.",
            momentum_over_scaffold,
        ),
        Claim(
            "robust",
            "Without extreme heterogeneity the methods hardly differ.",
            "At the largest α the spread of the methods is less than half of that at α = 0.",
            differences_vanish,
        ),
    ),
)
