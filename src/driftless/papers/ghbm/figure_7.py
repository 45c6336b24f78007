"""Figure 7: a decaying learning rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from driftless.papers.ghbm.measures import QUALITY, SELECTION
from driftless.papers.ghbm.settings import FASHION_MNIST, IID, NON_IID, REDUCED, paper_cell, small_cell, small_setup
from driftless.reproduce.checks import Check, above, below, close
from driftless.reproduce.experiment import Cell, Claim, Experiment, Place, Setup
from driftless.reproduce.figure import Panel, curves
from driftless.reproduce.outcome import Floats, Outcome

DECAYS = (0.999, 0.9992, 0.9995, 0.9999)
SMALL_DECAYS = (0.951, 0.995)
"""The strongest and the mildest: to the same end after 200 rounds as the paper's after 10,000."""
DECAYED = ("FedAvg", "SCAFFOLD", "MimeMom", "FedHBM")
CONSTANT = 1.0


def decay_cells(
    cell: Callable[..., Cell], task: str, labels: Sequence[str], decays: Sequence[float], names: Sequence[str] = DECAYED
) -> Iterator[Cell]:
    for where in labels:
        for name in names:
            plain = cell(alpha=where, name=name, task=task)
            for decay in (CONSTANT, *decays):
                settings = plain.settings if decay == CONSTANT else {**plain.settings, "local.lr_decay": decay}
                at = {"data": task, "labels": where, "decay": decay, "algorithm": name}
                yield replace(plain, at=at, settings=settings)


def by_decay(outcome: Outcome) -> Iterator[tuple[dict[str, Place], dict[float, Floats]]]:
    """Each method in each setting, with its quality by factor."""
    for rest, results in outcome.groups("decay"):
        yield rest, {float(one.cell.at["decay"]): outcome.measured(one) for one in results}


def mildest(found: dict[float, Floats]) -> float:
    return max(decay for decay in found if decay != CONSTANT)


def same_distances(outcome: Outcome) -> Iterable[Check]:
    """From FedAvg, without decay and with the mildest, which the paper finds to be the best."""
    for labels in outcome.places("labels"):
        found = {str(rest["algorithm"]): each for rest, each in by_decay(outcome.part(labels=labels))}
        first = found.pop("FedAvg")
        decay = mildest(first)
        for name, each in found.items():
            constant, decaying = each[CONSTANT] - first[CONSTANT], each[decay] - first[decay]
            what = f"{labels}: {name} over FedAvg, with a decaying rate and with a constant one"
            yield from close(what, decaying, constant, margin=3, unit=" points")


def decay_does_not_help(outcome: Outcome) -> Iterable[Check]:
    for rest, found in by_decay(outcome):
        for decay, quality in found.items():
            if decay != CONSTANT:
                what = f"{rest['algorithm']}, {rest['labels']}: decaying by {decay:g}, constant"
                yield below(what, quality, found[CONSTANT], by=-0.5, unit=" %")


def mildest_decay(outcome: Outcome) -> Iterable[Check]:
    for rest, found in by_decay(outcome):
        for decay, quality in found.items():
            if decay not in (CONSTANT, mildest(found)):
                what = f"{rest['algorithm']}, {rest['labels']}: decaying by {mildest(found):g}, by {decay:g}"
                yield above(what, found[mildest(found)], quality, unit=" %")


def with_and_without_decay(outcome: Outcome) -> list[Panel]:
    """One panel for each setting, with a constant rate and with the mildest decay."""
    decays = [float(decay) for decay in outcome.places("decay")]
    shown = (CONSTANT, max(decay for decay in decays if decay != CONSTANT))
    panels = (replace(panel, title=f"{panel.title}, factor {decay:g}")
              for decay in shown for panel in curves(outcome, "test_accuracy", by="labels", decay=decay))  # fmt: skip
    return list(panels)


FIGURE_7 = Experiment(
    name="figure-7",
    title="A decaying learning rate",
    where="Figure 7, appendix C.7",
    about="The best methods on CIFAR-100 with a ResNet-20, with a learning rate that decays each round; the factor is "
    "searched in {0.999, 0.9992, 0.9995, 0.9999} for each method.",
    paper=Setup(tuple(decay_cells(paper_cell, "CIFAR-100, ResNet-20", (NON_IID, IID), DECAYS)), seeds=5),
    small=small_setup(
        decay_cells(small_cell, FASHION_MNIST, (NON_IID,), SMALL_DECAYS, ("FedAvg", "FedHBM")),
        reduced=REDUCED
        + " Factors of 0.951 and 0.995, which do in 200 rounds what 0.999 and 0.9999 do in 10,000; α = 0 and two "
        "methods only.",
    ),
    measure=QUALITY,
    selection=SELECTION,
    figure=with_and_without_decay,
    claims=(
        Claim(
            "order",
            "Decay does not change which methods are better than which.",
            "With the mildest decay the distance of each method's quality from FedAvg's differs by less than 3 points "
            "from that with a constant rate.",
            same_distances,
            paper='drawn: "does not change the relative performance"',
        ),
        Claim(
            "no-help",
            "In this setting decay does not help.",
            "With no factor does a method gain half a point or more.",
            decay_does_not_help,
            paper='drawn: "does not help convergence"',
        ),
        Claim(
            "mildest",
            "The mildest decay is the best of the grid for every method.",
            "The quality with the largest factor is higher than with each other factor that is run.",
            mildest_decay,
            paper="0.9999 of 0.999 to 0.9999 was best for all methods",
        ),
    ),
)
