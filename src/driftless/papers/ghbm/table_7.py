"""Table 7: the search for hyper-parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from driftless.papers.ghbm.hyper_parameters import BETA, METHODS, SERVER_LR, TAU
from driftless.papers.ghbm.measures import QUALITY, SELECTION
from driftless.papers.ghbm.settings import ALGORITHMS, NON_IID, REDUCED, TASKS, labels_of, small_cell, small_setup
from driftless.reproduce.checks import Check, above
from driftless.reproduce.experiment import Cell, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome

SEARCH_TASKS = {"CNN": "CIFAR-100, CNN", "ResNet-20": "CIFAR-100, ResNet-20", "Shakespeare": "Shakespeare",
                "StackOverflow": "StackOverflow"}  # fmt: skip
CHECKED = {"FedAvg": SERVER_LR, "FedAvgM": SERVER_LR, "GHBM": TAU, "FedHBM": BETA}
"""Of these every value has a cell of its own."""
SMALL_CHECKED = ("FedAvg", "GHBM", "FedHBM")


def short(key: str) -> str:
    """ "algorithm.tau": "tau"."""
    return key.partition(".")[2]


def search_cells() -> Iterator[Cell]:
    """All that was tried for each method; a parameter that is checked by its values, the others searched for each."""
    for name, row in METHODS.items():
        for column, task in SEARCH_TASKS.items():
            if name == "FedCM" and column == "StackOverflow":
                continue
            grid = {key: search[column].tried for key, search in row.items()}
            settings = {**TASKS[task].settings, **ALGORITHMS[name]}
            if task != "StackOverflow":
                settings.update(labels_of(task, NON_IID))
            at, checked = {"column": column, "algorithm": name}, CHECKED.get(name, "")
            for value in grid.pop(checked, (None,)):
                own = {} if value is None else {short(checked): value}
                yield Cell({**at, **own}, {**settings, **({checked: value} if own else {})}, None, grid)


def small_search_cells() -> Iterator[Cell]:
    for name in SMALL_CHECKED:
        key = CHECKED[name]
        for value in METHODS[name][key]["CNN"].tried:
            at = {"column": "CNN", "algorithm": name, short(key): value}
            yield small_cell(NON_IID, name, at=at, **{key.replace(".", "_", 1): value})


def best_as_printed(outcome: Outcome) -> Iterable[Check]:
    for name, key in CHECKED.items():
        printed = METHODS[name][key]["CNN"].best
        found = {one.cell.at[short(key)]: outcome.measured(one) for one in outcome.pick(column="CNN", algorithm=name)}
        for value, quality in found.items():
            if value != printed:
                what = f"{name}: {short(key)} = {printed:g}, {value:g}"
                yield above(what, found[printed], quality, by=-0.5, unit=" %")


TABLE_7 = Experiment(
    name="table-7",
    title="The search for hyper-parameters",
    where="Table 7, appendix C.4",
    about="Server and local learning rate and the methods' own parameters, searched for each method and model at α = "
    "0.",
    paper=Setup(tuple(search_cells())),
    small=small_setup(small_search_cells(), reduced=REDUCED + " One parameter of each of three methods."),
    measure=QUALITY,
    selection=SELECTION,
    claims=(
        Claim(
            "chosen",
            "Server learning rate 1 for FedAvg and 0.1 for FedAvgM, τ = 10 for GHBM and β = 1 for FedHBM are the best "
            "for the CNN.",
            "The quality with the printed value is higher than with each other value of Table 7, or lower by less than "
            "half a point.",
            best_as_printed,
            paper="1, 0.1, 10 and 1 are bold",
        ),
    ),
)
