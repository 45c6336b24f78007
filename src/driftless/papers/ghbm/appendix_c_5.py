"""Appendix C.5: the two options of SCAFFOLD."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from driftless.algorithms import Scaffold
from driftless.cost import measure
from driftless.models import build
from driftless.papers.ghbm.hyper_parameters import BATCH_SIZE
from driftless.papers.ghbm.measures import QUALITY, SELECTION, accuracy_curves, scores_by_setting
from driftless.papers.ghbm.quadratics import Values
from driftless.papers.ghbm.settings import FASHION_MNIST, IID, NON_IID, paper_cell, small_cell, small_setup
from driftless.papers.ghbm.table_3 import SPLITS
from driftless.reproduce.checks import Check, below, exact
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome

OPTIONS = {1: "SCAFFOLD, option I", 2: "SCAFFOLD, option II"}


def option_cells(cell: Callable[..., Cell], tasks: Sequence[str]) -> Iterator[Cell]:
    for task in tasks:
        for labels in (NON_IID, IID):
            for option, name in OPTIONS.items():
                at = {"data": task, "labels": labels, "algorithm": name}
                yield cell(alpha=labels, name="SCAFFOLD", task=task, at=at, algorithm_option=option)


def gradient_flops() -> Values:
    """Of the forward and backward passes of a client in a round, for the CNN on CIFAR-100."""
    split = SPLITS["CIFAR-100"]
    module = build("lenet", (3, 32, 32), split["classes"])
    example = torch.zeros(1, 3, 32, 32), torch.zeros(1, dtype=torch.int64)
    work = {"steps": split["steps"], "batch_size": BATCH_SIZE["CNN"], "examples": split["examples"]}
    return {name: measure(Scaffold(option=option), module, example, **work).model_flops
            for option, name in OPTIONS.items()}  # fmt: skip


def first_option_is_worse(outcome: Outcome) -> Iterable[Check]:
    for where, scores in scores_by_setting(outcome, *OPTIONS.values()):
        yield below(f"{where}: option I, option II", scores[OPTIONS[1]], scores[OPTIONS[2]], unit=" %")


def first_option_computes_twice(outcome: Outcome) -> Iterable[Check]:
    first, second = (outcome.values[name] for name in OPTIONS.values())
    yield exact(f"FLOPs of option I in units of option II's: {first / second:.3g}", 1.8 <= first / second <= 2)


APPENDIX_C_5 = Experiment(
    name="appendix-c-5",
    title="The two options of SCAFFOLD",
    where="Appendix C.5",
    about="A client's control variate is the gradient of all its examples at the server's model (option I) or the mean "
    "of the gradients of its local steps (option II), which all other experiments use.",
    paper=Setup(tuple(option_cells(paper_cell, ("CIFAR-100, CNN", "CIFAR-100, ResNet-20"))), seeds=5),
    small=small_setup(option_cells(small_cell, (FASHION_MNIST,))),
    measure=QUALITY,
    selection=SELECTION,
    study=gradient_flops,
    figure=accuracy_curves,
    claims=(
        Claim(
            "quality",
            "Option I usually degrades the final quality.",
            "The quality with option I is lower than with option II, on average over the settings.",
            first_option_is_worse,
            decided_by="average",
            paper='"usually degrades", without numbers',
        ),
        Claim(
            "computing",
            "Option I requires almost double the training time, for its additional forward and backward passes.",
            "The FLOPs of the forward and backward passes of a round of one epoch are 1.8 to 2 times as many.",
            first_option_computes_twice,
            kind="count",
            paper="almost double",
        ),
    ),
)
