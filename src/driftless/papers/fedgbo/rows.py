"""A row of Figure 1 or 2: one task, with 10 or with 50 local steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from driftless.papers.fedgbo.measures import BEST_ACCURACY, combinations_of, highest_accuracy, mean_accuracy, pairs
from driftless.papers.fedgbo.settings import (
    ADAPTIVE,
    OPTIMISERS,
    PAPER_TASKS,
    SMALL_TASKS,
    STEPS,
    TABLE_3,
    TRIALS,
    row_cells,
)
from driftless.reproduce.experiment import Check, Claim, Experiment, Setup
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import Outcome, above

REDUCED = {
    "CIFAR100": "The central 16x16 pixels, a light CNN, batches of 16, 80 rounds instead of 5,000, one seed, no "
    "RMSProp. β is Table 8's; its learning rates are meant for 5,000 rounds (v starts at 1 and, with one update a "
    "round, has hardly moved after 80), so they are chosen among two or three. Only the start of the paper's curves "
    "is seen.",
    "Sent140": "The 1,473 users of the shared file with five tweets or more, six to train on each; the test tweets are "
    "each user's last instead of random ones. {rounds} rounds instead of 5,000, {seeds}; β is Table 8's, the learning "
    "rate is chosen among two or three. Adam's were raised after a first try, in which it hardly left its start "
    "and the claim about RMSProp and Adam was found partly true.",
    "FEMNIST": "Fashion-MNIST stands in, divided among 300 clients by Dirichlet(0.3), ten a round, with the model "
    "'mlp'. {rounds} rounds instead of 5,000, one seed; β is Table 8's, the learning rate is chosen among two or "
    "three.",
    "Shakespeare": "445 roles, 20 characters before each predicted one, every 50th place of the text, batches of 16, "
    "50 rounds instead of 5,000, one seed; only SGDm and FedAvg, with Table 8's values.",
}
SEEDS = {("Sent140", 10): 2}
"""One elsewhere."""
TOO_LONG = "a round of 50 local steps takes seconds on two cores, and some hundred rounds would be needed to see it"


def row_figure(outcome: Outcome) -> list[Panel]:
    return curves(outcome, "test_accuracy", by="optimiser")


def fastest(name: str, optimiser: str) -> Callable[[Outcome], Iterable[Check]]:
    def checks(outcome: Outcome) -> Iterable[Check]:
        one = outcome.one(algorithm=name, optimiser=optimiser)
        for text, rival in combinations_of(outcome):
            if text != f"{name} {optimiser}":
                yield above(
                    f"mean accuracy, {name} {optimiser} against {text}",
                    mean_accuracy(one),
                    mean_accuracy(rival),
                    unit=" %",
                )

    return checks


def little_benefit(*optimisers: str) -> Callable[[Outcome], Iterable[Check]]:
    """Of adaptive algorithms over FedAvg: at most one point."""

    def checks(outcome: Outcome) -> Iterable[Check]:
        for text, one, fedavg in pairs(outcome, ADAPTIVE, optimisers or OPTIMISERS, ("FedAvg", None)):
            own, plain = highest_accuracy(one), highest_accuracy(fedavg)
            yield Check(f"highest accuracy, {text}: {own:.4g} % against {plain:.4g} %", own - plain <= 1)

    return checks


def figure_row(figure: int, task: str, claims: tuple[Claim, ...]) -> Experiment:
    steps = STEPS[figure - 1]
    facts = TABLE_3[task]
    rounds = SMALL_TASKS[task].rounds.get(steps)
    cells = row_cells(SMALL_TASKS, task, steps) if rounds else ()
    seeds = SEEDS.get((task, steps), 1)
    reduced = REDUCED[task].format(rounds=rounds, seeds="two seeds" if seeds == 2 else "one seed")
    return Experiment(
        name=f"figure-{figure}-{task.lower()}",
        title=f"{task}, {steps} local steps",
        where=f"Figure {figure}, {'section 4.1' if figure == 1 else 'appendix C'}",
        about=f"Four adaptive algorithms with three optimisers, and FedAvg, on {task}: {facts['clients']:,} clients, "
        f"{facts['cohort']} a round, {steps} local steps with batches of {facts['batch_size']}, 5,000 rounds, five "
        "trials, the hyper-parameters of Table 8.",
        paper=Setup(row_cells(PAPER_TASKS, task, steps), TRIALS),
        small=Setup(cells, seeds, reduced) if rounds else None,
        claims=claims,
        measure=BEST_ACCURACY,
        figure=row_figure,
        untestable="" if rounds else TOO_LONG,
    )
