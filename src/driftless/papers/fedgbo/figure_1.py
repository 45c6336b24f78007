"""Figure 1 as a whole: what is said of all tasks together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from driftless.papers.fedgbo.measures import BEST_ACCURACY, find, highest_accuracy, mean_accuracy, pairs
from driftless.papers.fedgbo.settings import (
    ADAPTIVE,
    LOCALLY_ADAPTIVE,
    OPTIMISERS,
    PAPER_TASKS,
    SMALL_TASKS,
    TRIALS,
    all_cells,
)
from driftless.reproduce.experiment import Check, Claim, Experiment, Place, Setup
from driftless.reproduce.outcome import Outcome, above, within


def not_always_the_same(place: str) -> Callable[[Outcome], Iterable[Check]]:
    """The value of a place where the fastest adaptive combination of a task stands."""

    def checks(outcome: Outcome) -> Iterable[Check]:
        firsts: dict[Place, Place] = {}
        for task in outcome.places("data", K=10):
            some = [one for one in outcome.pick(data=task, K=10) if one.cell.at["algorithm"] != "FedAvg"]
            if len({one.cell.at[place] for one in some}) > 1:
                firsts[task] = max(some, key=mean_accuracy).cell.at[place]
        if len(firsts) > 1:
            seen = ", ".join(f"{first} on {task}" for task, first in firsts.items())
            yield Check(f"fastest is {seen}", len(set(firsts.values())) > 1)

    return checks


def competitive(outcome: Outcome) -> Iterable[Check]:
    for task, optimiser in product(outcome.places("data", K=10), OPTIMISERS):
        scores = {
            name: highest_accuracy(one)
            for name in LOCALLY_ADAPTIVE
            if (one := find(outcome, name, optimiser, data=task, K=10))
        }
        if len(scores) == len(LOCALLY_ADAPTIVE):
            rival = max(("MFL", "Mimelite"), key=lambda name: scores[name])
            seen = f"FedGBO {scores['FedGBO']:.4g} %, {rival} {scores[rival]:.4g} %"
            yield Check(f"{task}, {optimiser}: {seen}", scores["FedGBO"] >= scores[rival] - 1)


def local_is_not_worse(outcome: Outcome) -> Iterable[Check]:
    for task, other in product(outcome.places("data", K=10), ("FedAvg", "AdaptiveFedOpt")):
        for text, one, rival in pairs(outcome, LOCALLY_ADAPTIVE, OPTIMISERS, (other, None), data=task, K=10):
            yield above(
                f"{task}, mean accuracy, {text} less half a point",
                mean_accuracy(one),
                mean_accuracy(rival) - 0.5,
                unit=" %",
            )


def rmsprop_is_worst(outcome: Outcome) -> Iterable[Check]:
    for task, name in product(("CIFAR100", "FEMNIST", "Shakespeare"), ADAPTIVE):
        scores = {
            str(one.cell.at["optimiser"]): mean_accuracy(one) for one in outcome.pick(data=task, K=10, algorithm=name)
        }
        if len(scores) == len(OPTIMISERS):
            seen = ", ".join(f"{optimiser} {score:.4g} %" for optimiser, score in scores.items())
            yield Check(f"{task}, {name}: {seen}", min(scores, key=lambda key: scores[key]) == "RMSProp")


def bytes_sent(outcome: Outcome) -> Iterable[Check]:
    """Of SGDm and Adam: a round's bytes, divided by those of FedAvg."""
    expected = {"FedGBO": (1, 1), "AdaptiveFedOpt": (1, 1), "MFL": (2, 3), "Mimelite": (2, 2)}
    for (name, ups), (place, optimiser) in product(expected.items(), enumerate(("SGDm", "Adam"))):
        for task in outcome.places("data", K=10):
            for text, one, fedavg in pairs(outcome, [name], [optimiser], ("FedAvg", None), data=task, K=10):
                ratio = one.mean("bytes_up").mean / fedavg.mean("bytes_up").mean
                yield within(f"{task}, bytes uploaded, {text}", ratio, ups[place], 0.01)


FIGURE_1 = Experiment(
    name="figure-1",
    title="Convergence across tasks, 10 local steps",
    where="Figure 1 as a whole, sections 4.1 and 4.2",
    about="What is said of all tasks together: which algorithm and which optimiser win, and how FedGBO compares. The "
    "runs are those of the rows.",
    paper=Setup(all_cells(PAPER_TASKS, (10,)), TRIALS),
    small=Setup(
        all_cells(SMALL_TASKS, (10,)),
        1,
        "The runs of the rows above, reduced as said there, first seed; no RMSProp on CIFAR100 and only SGDm on "
        "Shakespeare.",
    ),
    measure=BEST_ACCURACY,
    claims=(
        Claim(
            "no-best-algorithm",
            "No algorithm converges fastest on every task.",
            "The fastest adaptive combinations (test accuracy, mean over the run) of the tasks do not all "
            "have the same algorithm.",
            not_always_the_same("algorithm"),
        ),
        Claim(
            "no-best-optimiser",
            "No optimiser is the best on every task.",
            "The fastest adaptive combinations of the tasks do not all have the same optimiser.",
            not_always_the_same("optimiser"),
        ),
        Claim(
            "competitive",
            "FedGBO competes with the other algorithms that are adaptive on the clients.",
            "For each task and optimiser, FedGBO's highest accuracy is at most one point below the better "
            "of MFL's and Mimelite's.",
            competitive,
            required_share=0.75,
        ),
        Claim(
            "local-adaptivity",
            "FedGBO, MFL and Mimelite are rarely worse than FedAvg or AdaptiveFedOpt.",
            "Their test accuracy, mean over the run, is more than that of FedAvg, and that of "
            "AdaptiveFedOpt with the same optimiser, less half a point.",
            local_is_not_worse,
            required_share=0.8,
        ),
        Claim(
            "rmsprop-worst",
            "On the three tasks without sparse features RMSProp is mostly the worst optimiser.",
            "For each of these tasks and each algorithm, RMSProp's test accuracy, mean over the run, is the lowest.",
            rmsprop_is_worst,
            required_share=0.6,
        ),
        Claim(
            "upload",
            "FedGBO and AdaptiveFedOpt upload as much as FedAvg, MFL and Mimelite more.",
            "Bytes uploaded in the runs, divided by FedAvg's: 1 for FedGBO and AdaptiveFedOpt, 2 for Mimelite, 2 "
            "(SGDm) and 3 (Adam) for MFL, to 1 %.",
            bytes_sent,
        ),
    ),
)
