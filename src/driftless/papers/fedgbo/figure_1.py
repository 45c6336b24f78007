"""Figure 1 as a whole: what is said of all tasks together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product

from driftless.papers.fedgbo.measures import BEST_ACCURACY, HELD_OUT_ACCURACY, faster, higher, pairs
from driftless.papers.fedgbo.settings import (
    ADAPTIVE,
    LOCALLY_ADAPTIVE,
    OPTIMISERS,
    PAPER_TASKS,
    SMALL_TASKS,
    TRIALS,
    all_cells,
)
from driftless.reproduce.checks import Check, within
from driftless.reproduce.experiment import Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome, Result


def task_pairs(
    outcome: Outcome, names: Iterable[str], optimisers: Iterable[str], other: tuple[str, str | None]
) -> Iterator[tuple[str, Result, Result]]:
    """Of every task, with 10 local steps."""
    for task in outcome.places("data", K=10):
        for text, one, rival in pairs(outcome, names, optimisers, other, data=task, K=10):
            yield f"{task}, {text}", one, rival


def is_faster_somewhere(name: str, than: str) -> Callable[[Outcome], Iterable[Check]]:
    """One algorithm than another with the same optimiser."""
    return lambda outcome: (faster(*pair) for pair in task_pairs(outcome, [name], OPTIMISERS, (than, None)))


def adaptive_rates_help(outcome: Outcome) -> Iterable[Check]:
    for name in ADAPTIVE:
        for pair in task_pairs(outcome, [name], ("RMSProp", "Adam"), (name, "SGDm")):
            yield faster(*pair)


def momentum_helps(outcome: Outcome) -> Iterable[Check]:
    for name, other in product(ADAPTIVE, ("RMSProp", "Adam")):
        for pair in task_pairs(outcome, [name], ["SGDm"], (name, other)):
            yield faster(*pair)


def competitive(outcome: Outcome) -> Iterable[Check]:
    for rival in ("MFL", "Mimelite"):
        for pair in task_pairs(outcome, ["FedGBO"], OPTIMISERS, (rival, None)):
            yield higher(*pair, by=-1)


def local_is_not_worse(outcome: Outcome) -> Iterable[Check]:
    for other in ("FedAvg", "AdaptiveFedOpt"):
        for pair in task_pairs(outcome, LOCALLY_ADAPTIVE, OPTIMISERS, (other, None)):
            yield faster(*pair, by=-0.5)


def rmsprop_is_worst(outcome: Outcome) -> Iterable[Check]:
    """On the tasks without sparse features."""
    for task, name, better in product(("CIFAR100", "FEMNIST", "Shakespeare"), ADAPTIVE, ("SGDm", "Adam")):
        for text, one, rmsprop in pairs(outcome, [name], [better], (name, "RMSProp"), data=task, K=10):
            yield faster(f"{task}, {text}", one, rmsprop)


def bytes_sent(outcome: Outcome) -> Iterable[Check]:
    """Of SGDm and Adam: a round's bytes, divided by those of FedAvg."""
    expected = {"FedGBO": (1, 1), "AdaptiveFedOpt": (1, 1), "MFL": (2, 3), "Mimelite": (2, 2)}
    for (name, ups), (place, optimiser) in product(expected.items(), enumerate(("SGDm", "Adam"))):
        for text, one, fedavg in task_pairs(outcome, [name], [optimiser], ("FedAvg", None)):
            ratio = one.mean("bytes_up").mean() / fedavg.mean("bytes_up").mean()
            yield within(f"bytes uploaded, {text}", float(ratio), ups[place], 0.01)


FIGURE_1 = Experiment(
    name="figure-1",
    title="Convergence across tasks, 10 local steps",
    where="Figure 1 as a whole, sections 4.1 and 4.2",
    about="What is said of all tasks together: which algorithm and which optimiser win, and how FedGBO compares. The "
    "runs are those of the rows.",
    paper=Setup(all_cells(PAPER_TASKS, (10,)), TRIALS),
    small=Setup(
        all_cells(SMALL_TASKS, (10,)),
        seeds=3,
        grid_seeds=1,
        reduced="The runs of the rows above, reduced as said there, the first three seeds: Sent140, the stand-in for "
        "FEMNIST and, with SGDm only, CIFAR100.",
    ),
    measure=BEST_ACCURACY,
    selection=HELD_OUT_ACCURACY,
    claims=(
        Claim(
            "fedgbo-ahead",
            "No algorithm is the fastest everywhere: FedGBO is ahead of Mimelite on one task.",
            "On at least one task, with at least one optimiser, the test accuracy of FedGBO, mean over the run, is "
            "above that of Mimelite with the same optimiser.",
            is_faster_somewhere("FedGBO", "Mimelite"),
            decided_by="any",
            paper="drawn: FedGBO with SGDm is the fastest on CIFAR100",
        ),
        Claim(
            "mimelite-ahead",
            "No algorithm is the fastest everywhere: Mimelite is ahead of FedGBO on another.",
            "On at least one task, with at least one optimiser, the test accuracy of Mimelite, mean over the run, is "
            "above that of FedGBO with the same optimiser.",
            is_faster_somewhere("Mimelite", "FedGBO"),
            decided_by="any",
            paper="drawn: Mimelite with SGDm is the fastest on Shakespeare",
        ),
        Claim(
            "adaptive-rates-ahead",
            "No optimiser is the best everywhere: RMSProp and Adam are ahead of SGDm on one task.",
            "On at least one task, for at least one algorithm, the test accuracy, mean over the run, is above SGDm's "
            "with RMSProp or with Adam.",
            adaptive_rates_help,
            decided_by="any",
            paper="drawn: RMSProp and Adam are the fastest on Sent140",
        ),
        Claim(
            "sgdm-ahead",
            "No optimiser is the best everywhere: SGDm is ahead of RMSProp and Adam on another.",
            "On at least one task, for at least one algorithm, the test accuracy, mean over the run, is with SGDm "
            "above that with RMSProp or with Adam.",
            momentum_helps,
            decided_by="any",
            paper="drawn: SGDm is the fastest on Shakespeare",
        ),
        Claim(
            "competitive",
            "FedGBO competes with the other algorithms that are adaptive on the clients.",
            "On average over tasks, optimisers and the two rivals MFL and Mimelite, FedGBO's highest accuracy is less "
            "than one point below theirs.",
            competitive,
            decided_by="average",
            paper="“highly competitive”, drawn",
        ),
        Claim(
            "local-adaptivity",
            "FedGBO, MFL and Mimelite are rarely worse than FedAvg or AdaptiveFedOpt.",
            "On average over tasks and optimisers, their test accuracy, mean over the run, is more than that of "
            "FedAvg, and that of AdaptiveFedOpt with the same optimiser, less half a point.",
            local_is_not_worse,
            decided_by="average",
            paper="“few instances” where they are, drawn",
        ),
        Claim(
            "rmsprop-worst",
            "On the three tasks without sparse features RMSProp is mostly the worst optimiser.",
            "On average over these tasks, the algorithms and the two other optimisers, the test accuracy, mean over "
            "the run, is above RMSProp's.",
            rmsprop_is_worst,
            decided_by="average",
            paper="“largely the worst”, drawn",
        ),
        Claim(
            "upload",
            "FedGBO and AdaptiveFedOpt upload as much as FedAvg, MFL and Mimelite more.",
            "Bytes uploaded in the runs, divided by FedAvg's: 1 for FedGBO and AdaptiveFedOpt, 2 for Mimelite, 2 "
            "(SGDm) and 3 (Adam) for MFL, to 1 %.",
            bytes_sent,
            kind="count",
            paper="1, 1, 2 and 2 or 3 by Table 2",
        ),
    ),
)
