"""Figure 2 as a whole: from 10 to 50 local steps."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from driftless.papers.fedgbo.measures import BEST_ACCURACY, early_accuracy, find, mean_accuracy, mean_change
from driftless.papers.fedgbo.settings import (
    ADAPTIVE,
    ALGORITHMS,
    OPTIMISERS,
    PAPER_TASKS,
    SMALL_TASKS,
    STEPS,
    TRIALS,
    all_cells,
)
from driftless.reproduce.experiment import Check, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome, above, below


def mfl_starts_fastest(outcome: Outcome) -> Iterable[Check]:
    for task, steps, optimiser in product(outcome.places("data"), STEPS, OPTIMISERS):
        scores = {str(one.cell.at["algorithm"]): early_accuracy(one)
                  for one in outcome.pick(data=task, K=steps, optimiser=optimiser)}  # fmt: skip
        if "MFL" in scores:
            rival = max((name for name in scores if name != "MFL"), key=lambda name: scores[name])
            seen = f"MFL {scores['MFL']:.4g} %, {rival} {scores[rival]:.4g} %"
            yield Check(f"{task}, K = {steps}, {optimiser}: {seen}", scores["MFL"] >= scores[rival])


def calmer_with_more_steps(outcome: Outcome) -> Iterable[Check]:
    for name in ADAPTIVE:
        ten, fifty = (find(outcome, name, "SGDm", data="Sent140", K=steps) for steps in STEPS)
        if ten and fifty:
            text = f"Sent140, {name} SGDm, change between evaluations, K = 50 against K = 10"
            yield below(text, mean_change(fifty), mean_change(ten), unit=" points")


def more_steps_help(outcome: Outcome) -> Iterable[Check]:
    """On Shakespeare; the two exceptions are the paper's."""
    exceptions = {("Mimelite", "SGDm"), ("Mimelite", "Adam")}
    for name, optimiser in product(ALGORITHMS, OPTIMISERS):
        ten, fifty = (find(outcome, name, optimiser, data="Shakespeare", K=steps) for steps in STEPS)
        if ten and fifty:
            text = f"{name} {optimiser}, mean accuracy, K = 50 against K = 10"
            check = below if (name, optimiser) in exceptions else above
            yield check(text, mean_accuracy(fifty), mean_accuracy(ten), unit=" %")


FIGURE_2 = Experiment(
    name="figure-2",
    title="From 10 to 50 local steps",
    where="Figure 2 as a whole, appendix C",
    about="What changes from Figure 1 to Figure 2. The runs are those of the rows of both.",
    paper=Setup(all_cells(PAPER_TASKS), TRIALS),
    small=Setup(
        all_cells(SMALL_TASKS),
        1,
        "The runs of the rows above, reduced as said there, first seed; no runs with 50 local steps on CIFAR100 and "
        "Shakespeare.",
    ),
    measure=BEST_ACCURACY,
    claims=(
        Claim(
            "mfl-starts-fastest",
            "MFL almost always starts fastest, because its optimiser is updated at each local step.",
            "For each task, K and optimiser, MFL's accuracy over the first fifth of the evaluations is at least that "
            "of the others and of FedAvg.",
            mfl_starts_fastest,
            required_share=0.75,
        ),
        Claim(
            "calmer",
            "On Sent140 the curves of SGDm are less noisy with 50 local steps, as the learning rates are ten times "
            "lower.",
            "For each algorithm, the mean change between evaluations, in the second half of the run, is smaller with K "
            "= 50.",
            calmer_with_more_steps,
            required_share=0.75,
        ),
        Claim(
            "shakespeare-more-steps",
            "On Shakespeare 50 local steps help all combinations but Mimelite with SGDm and with Adam.",
            "The test accuracy, mean over the run, rises from K = 10 to K = 50, for these two it does not.",
            more_steps_help,
            required_share=0.8,
        ),
    ),
)
