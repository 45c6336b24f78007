"""What an experiment of a paper is: data that say what is run, what was published and what is claimed.

`driftless.papers` holds the experiments; `runner.py` runs and judges them, `pages.py` writes their pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from driftless.reproduce.checks import Check
    from driftless.reproduce.figure import Heat, Panel
    from driftless.reproduce.outcome import Measure, Outcome

Place = str | int | float
Settings = Mapping[str, Any]
"""By full keys, {"algorithm.name": "adabest", "local.lr": 0.1}."""
Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")
Verdict = Literal["supported", "refuted", "undecided", "not tested"]
VERDICTS: tuple[Verdict, ...] = ("supported", "refuted", "undecided", "not tested")
Kind = Literal["identity", "count", "experiment"]
"""identity: an equation, a bound or a proof, checked where it is exact; count: numbers that are counted, such as bytes;
experiment: trained and measured."""
KINDS: tuple[Kind, ...] = ("identity", "count", "experiment")


class Number(NamedTuple):
    """A mean over seeds and its standard deviation."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Cell:
    """One number of a table or one curve of a figure."""

    at: Mapping[str, Place]
    """Where it stands: {"algorithm": "AdaBest", "alpha": 0.3}. Names are the columns of the printed table."""
    settings: Settings
    published: Number | None = None
    """What the paper prints there; None where it only draws a curve."""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Settings that the authors searched: every combination is run, the best by the experiment's measure is kept."""

    @property
    def candidates(self) -> list[Settings]:
        combinations = product(*self.grid.values())
        return [{**self.settings, **dict(zip(self.grid, values, strict=True))} for values in combinations]


@dataclass(frozen=True)
class Setup:
    """An experiment at one scale."""

    cells: tuple[Cell, ...] = ()
    seeds: int = 1
    """With which the claims are judged first."""
    most_seeds: int = 0
    """Seeds are added one by one until all claims are decided, or there are so many; 0: none are added."""
    grid_seeds: int = 0
    """Seeds that the points of a grid are compared with; the others run the chosen point only. 0: all."""
    reduced: str = ""
    """What differs from the paper, in a sentence or two; empty: nothing."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the experiment's `study`."""

    @property
    def last_look(self) -> int:
        return max(self.seeds, self.most_seeds)

    @property
    def data(self) -> list[str]:
        """The data sets it needs."""
        return list(dict.fromkeys(data_of(cell) for cell in self.cells))


def data_of(cell: Cell) -> str:
    return str(cell.settings.get("data.name", "digits"))


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper that can be wrong, and how it is decided."""

    name: str
    text: str
    rule: str
    """What is checked, with its margin, in words, for a reader who has not seen the numbers yet."""
    checks: Callable[[Outcome], Iterable[Check]]
    decided_by: Literal["all", "average", "any"] = "all"
    """Of the checks: all must hold; their average must, over the settings; at least one must."""
    kind: Kind | None = None
    """None: the experiment's."""
    paper: str = ""
    """What the paper prints or draws, where it cannot be computed from its numbers."""


@dataclass(frozen=True)
class Experiment:
    name: str
    """In commands: "table-2"."""
    title: str
    where: str
    """Its place in the paper: "Table 2, section 4.4"."""
    about: str
    """What was done there, in our words."""
    paper: Setup
    small: Setup | None
    """None: not tested here; then `untestable` says why."""
    claims: tuple[Claim, ...]
    measure: Measure | None = None
    """The number of a cell. None for an experiment that is only a study."""
    selection: Measure | None = None
    """What decides between the points of a grid, such as the accuracy on held-out clients. None: the measure."""
    columns: str = "algorithm"
    """The place whose values are the columns of the printed table."""
    figure: Callable[[Outcome], Sequence[Panel | Heat]] | None = None
    study: Callable[..., Mapping[str, Any]] | None = None
    """Computed instead of trained: gets the setup's options, returns values that JSON can hold."""
    kind: Kind = "experiment"
    untestable: str = ""
    smoke_options: Mapping[str, Any] = field(default_factory=dict)
    """Of the study, at smoke scale."""
    ours: bool = False
    """A study of our own: there are no published numbers, and the paper scale is the small one."""

    def setup(self, scale: Scale) -> Setup | None:
        if scale == "smoke":
            return replace(smoke_setup(self.small or self.paper), options=self.smoke_options)
        return self.paper if scale == "paper" else self.small


@dataclass(frozen=True)
class Paper:
    name: str
    title: str
    citation: str
    experiments: tuple[Experiment, ...]
    notes: tuple[str, ...] = ()
    """What a reader must know: misprints, stand-ins, grids."""

    @property
    def ours(self) -> bool:
        """A collection of our own studies."""
        return all(one.ours for one in self.experiments)


KEPT_PARTITIONS = ("iid", "dirichlet", "prior-dirichlet")


def smoke_setup(setup: Setup) -> Setup:
    """The same cells on a few digits for two rounds: shows that everything runs, and nothing else."""
    cells = (replace(cell, settings=smoke_settings(cell.candidates[0]), grid={}) for cell in setup.cells)
    return Setup(tuple(cells), reduced="Two rounds on 20 clients with a few digits each: only shows that it runs.")


def smoke_settings(settings: Settings) -> Settings:
    kept = {key: value for key, value in settings.items() if not key.startswith(("data.", "model.", "engine."))}
    partition = settings.get("data.partition", "iid")
    data = {"data.name": "digits", "data.clients": 20, "data.partition": partition}
    if partition not in KEPT_PARTITIONS:
        data["data.partition"] = "iid"
    elif "data.alpha" in settings:
        data["data.alpha"] = settings["data.alpha"]
    if settings.get("data.validation"):
        data["data.validation"] = 4
    cohort = settings.get("run.cohort", 10)
    short: dict[str, Any] = {
        "run.rounds": 2, "run.evaluate_every": 1, "run.checkpoint_every": 0, "run.cohort": smoke_cohort(cohort),
        "engine.kind": "single", "model.name": "logistic",
    }  # fmt: skip
    if "local.steps" in settings:
        short["local.steps"] = 1 if settings["local.steps"] == 1 else 2
    if "local.epochs" in settings:
        short["local.epochs"] = 1
    if "server.reference_cohort" in settings:
        short["server.reference_cohort"] = 2
    return {**kept, **data, **short}


def smoke_cohort(cohort: Any) -> Any:
    """A cohort of the same kind, of a handful of clients."""
    if isinstance(cohort, str):
        kind = cohort.partition(":")[0]
        return {"cyclic": "cyclic:5", "doubling": "doubling:2,1,8", "poisson": "poisson:0.5"}[kind]
    return min(cohort, 4) if isinstance(cohort, int) else cohort
