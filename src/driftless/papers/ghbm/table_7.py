"""Table 7: the search for hyper-parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from driftless.papers.ghbm.hyper_parameters import BETA, LR, METHODS, SERVER_LR, TAU
from driftless.papers.ghbm.measures import QUALITY
from driftless.papers.ghbm.settings import ALGORITHMS, NON_IID, REDUCED, SMALL_RATES, TASKS, labels_of, small_cell
from driftless.reproduce.experiment import Cell, Check, Claim, Experiment, Setup
from driftless.reproduce.outcome import Outcome

SEARCH_TASKS = {"CNN": "CIFAR-100, CNN", "ResNet-20": "CIFAR-100, ResNet-20", "Shakespeare": "Shakespeare",
                "StackOverflow": "StackOverflow"}  # fmt: skip


def search_cells() -> Iterator[Cell]:
    for name, row in METHODS.items():
        for column, task in SEARCH_TASKS.items():
            if name == "FedCM" and column == "StackOverflow":
                continue
            grid = {key: search[column].tried for key, search in row.items()}
            settings = {**TASKS[task].settings, **ALGORITHMS[name]}
            if task != "StackOverflow":
                settings.update(labels_of(task, NON_IID))
            yield Cell({"column": column, "algorithm": name}, settings, None, grid)


CHECKED = {"FedAvg": SERVER_LR, "FedAvgM": SERVER_LR, "GHBM": TAU, "FedHBM": BETA}
"""Of these the printed value is expected at small scale: the one for the CNN."""
SMALL_SEARCHES: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    *((name, key, METHODS[name][key]["CNN"].tried) for name, key in CHECKED.items()),
    *(
        (name, LR, SMALL_RATES)
        for name in ("SCAFFOLD", "FedDyn", "AdaBest", "MIME", "FedAvgM", "MimeMom", "MimeLiteMom")
    ),
    ("FedCM", LR, METHODS["FedCM"][LR]["CNN"].tried),
)


def small_search_cells() -> Iterator[Cell]:
    for name, key, tried in SMALL_SEARCHES:
        at = {"searched": key.partition(".")[2], "algorithm": name}
        yield small_cell(NON_IID, name, at=at, grid={key: tried})


def chosen_as_printed(outcome: Outcome) -> Iterable[Check]:
    for one in outcome.results:
        name = str(one.cell.at["algorithm"])
        key = CHECKED.get(name, "")
        if key in one.settings:
            seen, expected = one.settings[key], METHODS[name][key]["CNN"].best
            yield Check(f"{name}: {key.partition('.')[2]} = {seen:g}, printed {expected:g}", seen == expected)


TABLE_7 = Experiment(
    name="table-7",
    title="The search for hyper-parameters",
    where="Table 7, appendix C.4",
    about="Server and local learning rate and the methods' own parameters, searched for each method and model at α = "
    "0.",
    paper=Setup(tuple(search_cells())),
    small=Setup(
        tuple(small_search_cells()), reduced="One parameter of four methods, and the learning rate of eight. " + REDUCED
    ),
    measure=QUALITY,
    claims=(
        Claim(
            "chosen",
            "Server learning rate 1 for FedAvg and 0.1 for FedAvgM, τ = 10 for GHBM and β = 1 for FedHBM are the best.",
            "The value of the highest quality among those of Table 7 is the printed one.",
            chosen_as_printed,
        ),
    ),
)
