"""Figure 2: τ above 1 is crucial, 1/C is best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from driftless.papers.ghbm.measures import QUALITY, Scores, accuracy_curves, scores_by_setting
from driftless.papers.ghbm.settings import FASHION_MNIST, NON_IID, REDUCED, TAUS, paper_cell, small_cell
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome, above, below


def tau_name(tau: int) -> str:
    return f"GHBM τ={tau}"


def tau_cells(
    cell: Callable[..., Cell], task: str, taus: Sequence[int], others: Sequence[str] = ("FedAvg", "LocalGHBM", "FedHBM")
) -> list[Cell]:
    where = {"data": task, "labels": NON_IID}
    swept = [cell(alpha=NON_IID, name="GHBM", task=task, at={**where, "algorithm": tau_name(tau)}, algorithm_tau=tau)
             for tau in taus]  # fmt: skip
    return [*(cell(alpha=NON_IID, name=name, task=task) for name in others), *swept]


def swept_taus(scores: Scores) -> dict[int, float]:
    return {int(name.partition("=")[2]): score for name, score in scores.items() if name.startswith("GHBM τ=")}


def larger_tau_helps(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, tau_name(1), tau_name(10)):
        for tau, score in swept_taus(scores).items():
            if tau in (5, 10, 20):
                yield above(f"{where}: τ={tau} over τ=1", score, scores[tau_name(1)], by=3, unit=" %")


def classical_momentum_fails(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, "FedAvg", tau_name(1), tau_name(10)):
        gain = scores[tau_name(10)] - scores["FedAvg"]
        yield Check(f"{where}: τ=10 gains {gain:.1f} points over FedAvg", gain > 0)
        seen = scores[tau_name(1)] - scores["FedAvg"]
        yield below(f"{where}: the gain of τ=1 against half of that of τ=10", seen, max(gain, 0) / 2, unit=" points")


def best_tau_is_ten(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, tau_name(10)):
        taus = swept_taus(scores)
        best = max(taus, key=lambda tau: taus[tau])
        yield Check(
            f"{where}: best τ={best} with {taus[best]:.1f} %, τ=10 has {taus[10]:.1f} %", taus[10] >= taus[best] - 1
        )


def large_tau_is_harmless(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, tau_name(1), tau_name(10)):
        taus = swept_taus(scores)
        allowed = max(0.0, taus[10] - taus[1]) / 4
        for tau in sorted(taus):
            if tau > 10:
                what = f"{where}: loss of τ={tau} against τ=10, a quarter of the gain of τ=10 over τ=1"
                yield below(what, taus[10] - taus[tau], allowed, unit=" points")


def adaptive_match(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, "LocalGHBM", "FedHBM", tau_name(10)):
        best = max(swept_taus(scores).values())
        for name in ("LocalGHBM", "FedHBM"):
            yield above(f"{where}: {name} against the best GHBM, less one point", scores[name], best - 1, unit=" %")


FIGURE_2 = Experiment(
    name="figure-2",
    title="τ above 1 is crucial, 1/C is best",
    where="Figure 2, section 5.2",
    about="GHBM with several τ, FedAvg and the two adaptive variants on CIFAR-10, one class a client (α = 0), 10 of "
    "100 clients a round, with a CNN and a ResNet-20.",
    paper=Setup(
        tuple(
            tau_cells(paper_cell, "CIFAR-10, CNN", (1, *TAUS))
            + tau_cells(paper_cell, "CIFAR-10, ResNet-20", (1, *TAUS))
        ),
        seeds=5,
    ),
    small=Setup(tuple(tau_cells(small_cell, FASHION_MNIST, (1, *TAUS))), reduced=REDUCED),
    measure=QUALITY,
    figure=accuracy_curves,
    claims=(
        Claim(
            "tau-above-1",
            "Averaging the momentum over more than one round is what makes it correct client drift.",
            "The quality of τ = 5, 10 and 20 is more than 3 points above that of τ = 1.",
            larger_tau_helps,
        ),
        Claim(
            "tau-1",
            "Classical momentum, τ = 1, does not improve FedAvg under worst-case heterogeneity.",
            "τ = 10 improves on FedAvg, and τ = 1 by less than half as much.",
            classical_momentum_fails,
        ),
        Claim(
            "optimum",
            "The best τ is 1/C = 10.",
            "No other τ that is run is more than one point better than τ = 10.",
            best_tau_is_ten,
        ),
        Claim(
            "large-tau",
            "A τ that is too large costs little.",
            "Each τ above 10 loses against τ = 10 less than a quarter of what τ = 10 gains over τ = 1.",
            large_tau_is_harmless,
        ),
        Claim(
            "adaptive",
            "The communication-efficient variants match or surpass the best τ.",
            "LocalGHBM and FedHBM are at most one point below the best GHBM.",
            adaptive_match,
        ),
    ),
)
