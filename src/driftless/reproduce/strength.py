"""How much a verdict is worth: what kind of claim it is about, and how far the experiment is from the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from driftless.reproduce.experiment import Cell, Claim, Experiment, Place, Scale, data_of

if TYPE_CHECKING:
    from driftless.reproduce.outcome import Outcome

MOST_REDUCED = 20
"""With the paper's data, fewer than a twentieth of its rounds test nothing."""
FEWEST_ROUNDS = 100
"""With other data, which may be learnt faster than the paper's: fewer rounds than these test nothing, either."""
DEFAULT_ROUNDS = 100


def rounds_of(cell: Cell) -> int:
    return int(cell.settings.get("run.rounds", DEFAULT_ROUNDS))


def counterparts(cell: Cell, experiment: Experiment) -> list[Cell]:
    """The cells of the paper that a cell stands for: with its data, at its places as far as these are the paper's."""
    found = [one for one in experiment.paper.cells if agrees(one.at, cell.at, experiment)]
    found = found or list(experiment.paper.cells)
    return [one for one in found if data_of(one) == data_of(cell)] or found


def agrees(paper: Mapping[str, Place], ours: Mapping[str, Place], experiment: Experiment) -> bool:
    known = {name: {one.at.get(name) for one in experiment.paper.cells} for name in ours}
    return all(paper.get(name) == value for name, value in ours.items() if value in known[name])


def reduction(cell: Cell, experiment: Experiment) -> float:
    return papers_rounds(cell, experiment) / rounds_of(cell)


def papers_rounds(cell: Cell, experiment: Experiment) -> int:
    """With the same data the fewest of its networks, since another network has rounds of its own; else the most."""
    rounds = [rounds_of(one) for one in counterparts(cell, experiment)] or [rounds_of(cell)]
    return max(rounds) if is_stand_in(cell, experiment) else min(rounds)


def is_stand_in(cell: Cell, experiment: Experiment) -> bool:
    return bool(experiment.paper.cells) and data_of(cell) not in experiment.paper.data


def is_too_small(cell: Cell, experiment: Experiment) -> bool:
    """So far from the paper that its claims cannot show."""
    by = reduction(cell, experiment)
    if is_stand_in(cell, experiment):
        return by > 1 and rounds_of(cell) < FEWEST_ROUNDS
    return by > MOST_REDUCED


def too_small(outcome: Outcome) -> str:
    """Why cells are not judged; empty when all are."""
    left_out = [cell for cell in outcome.setup.cells if is_too_small(cell, outcome.experiment)]
    if not left_out:
        return ""
    rounds, needed = rounds_of(left_out[0]), papers_rounds(left_out[0], outcome.experiment)
    return f"{rounds} of the paper's {needed:,} rounds are too few to show it"


def strength(experiment: Experiment, claim: Claim, scale: Scale) -> str:
    """In a few words, for tables."""
    kind = claim.kind or experiment.kind
    if kind != "experiment":
        return {"identity": "identity or proof", "count": "exact count"}[kind]
    setup = experiment.setup(scale)
    if setup is None:
        return "not tested"
    if experiment.ours:
        return "small study"
    if not setup.cells:
        return "numerical study"
    if setup.cells == experiment.paper.cells:
        return "paper scale"
    judged = [cell for cell in setup.cells if not is_too_small(cell, experiment)]
    if not judged:
        return "not tested"
    factors = sorted({round(reduction(cell, experiment), 1) for cell in judged})
    rounds = " to ".join(f"{factor:g}" for factor in dict.fromkeys((factors[0], factors[-1])))
    text = f"{rounds}x fewer rounds" if factors != [1.0] else "all rounds"
    stand_ins = sum(is_stand_in(cell, experiment) for cell in judged)
    if stand_ins == len(judged):
        return f"stand-in data, {text}"
    return f"reduced, {text}" + (", partly stand-in data" if stand_ins else "")
