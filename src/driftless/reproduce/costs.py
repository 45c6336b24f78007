"""Numbers of a paper's cost tables beside the same numbers derived from our algorithms.

No number of ours is declared: `printed` is data, `derived` comes from `driftless.cost`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch

from driftless.algorithm import Algorithm
from driftless.algorithms import ALGORITHMS
from driftless.cost import Rehearsal, vectors

TOLERANCE = 0.02
P = 1000
"""Parameters of the counted model. Any number: vector operations are counted in units of it."""

Reasons = Mapping[tuple[str, str, str], str]
"""Table, algorithm, column -> why printed and derived number differ."""


class CostCell(NamedTuple):
    """One number of a table, printed and derived."""

    table: str
    algorithm: str
    column: str
    printed: float
    derived: float
    reason: str = "not explained"
    """Why the two differ, if they do."""

    @property
    def ratio(self) -> float | None:
        return self.derived / self.printed if self.printed else None

    @property
    def agrees(self) -> bool:
        return abs(self.derived - self.printed) <= TOLERANCE * abs(self.printed)

    @property
    def difference(self) -> str:
        """Why the two differ; empty where they agree."""
        return "" if self.agrees else self.reason


def cost_cells(
    table: str, algorithm: str, columns: Sequence[str], printed: Iterable[float], derived: Iterable[float]
) -> Iterator[CostCell]:
    for column, theirs, ours in zip(columns, printed, derived, strict=True):
        yield CostCell(table, algorithm, column, theirs, ours)


def explained(cells: Iterable[CostCell], reasons: Reasons) -> list[CostCell]:
    return [cell._replace(reason=reasons.get(cell[:3], cell.reason)) for cell in cells]


def rehearse(algorithm: Algorithm) -> Rehearsal:
    return Rehearsal(algorithm, torch.empty(P, device="meta"), (slice(0, P),))


def exchanged(name: str) -> int:
    """Vectors that a client receives and sends in a round."""
    cost = vectors(ALGORITHMS[name]())
    return cost.down + cost.up
