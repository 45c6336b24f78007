"""Figure 6: sensitivity to μ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from driftless.papers.adabest.settings import MNIST_MLP, TASKS, algorithm
from driftless.papers.adabest.stability import SMALL_ROUNDS, stability_cells
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Setup
from driftless.reproduce.figure import curves
from driftless.reproduce.outcome import LAST_ACCURACY, Outcome, below

MUS = (0.02, 0.04, 0.08, 0.16)


def mu_cells(task: Mapping[str, Any], rounds: int, mus: Sequence[float] = MUS) -> tuple[Cell, ...]:
    return tuple(
        Cell({"algorithm": name, "mu": mu}, {**cell.settings, **algorithm(name, beta=0.8, mu=mu)})
        for name in ("AdaBest", "FedDyn")
        for mu in mus
        for cell in stability_cells(task, 100, "IID", rounds, [name])
    )


def depends_less_on_mu(outcome: Outcome) -> Iterable[Check]:
    spread = {}
    for name in ("AdaBest", "FedDyn"):
        ends = [100 * one.last().mean for one in outcome.pick(algorithm=name)]
        spread[name] = max(ends) - min(ends)
    yield below(
        "range of final accuracies over μ, AdaBest against FedDyn", spread["AdaBest"], spread["FedDyn"], unit=" points"
    )
    norms = {name: max(one.final("norm_x").mean for one in outcome.pick(algorithm=name)) for name in spread}
    yield below("largest final norm over μ, AdaBest against FedDyn", norms["AdaBest"], norms["FedDyn"])


FIGURE_6 = Experiment(
    name="figure-6",
    title="Sensitivity to μ",
    where="Figure 6, section D.5",
    about="The setting of Figure 4 with μ = 0.02, 0.04, 0.08 and 0.16 for AdaBest and FedDyn.",
    paper=Setup(mu_cells(TASKS["EMNIST-L"], 10_000), seeds=5),
    small=Setup(
        mu_cells(MNIST_MLP, SMALL_ROUNDS, mus=(0.02, 0.08)), reduced="MNIST instead of EMNIST-L, 500 rounds, one seed."
    ),
    measure=LAST_ACCURACY,
    columns="mu",
    claims=(
        Claim(
            "mu-insensitive",
            "AdaBest hardly depends on μ, while FedDyn's result and stability depend on it heavily.",
            "Over the values of μ that are run, the range of final accuracies and the largest final norm of the model "
            "are smaller for AdaBest than for FedDyn.",
            depends_less_on_mu,
        ),
    ),
    figure=lambda outcome: [
        *curves(outcome, "test_accuracy", by="algorithm"), *curves(outcome, "norm_x", by="algorithm", log=True),
    ],
)  # fmt: skip
