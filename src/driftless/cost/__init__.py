"""What an algorithm costs, derived by running its own methods, not declared.

One round of one client is rehearsed on meta tensors, which have a shape but no memory, so that a model of a billion
parameters costs no more than one of ten. What goes down, comes up and is kept is read off the tensors themselves; the
arithmetic is counted while it passes through torch's dispatcher (counting.py says what is one FLOP).
"""

from __future__ import annotations

from driftless.cost.counting import Counting, Operations
from driftless.cost.measure import Amounts, Cost, measure, vectors
from driftless.cost.rehearsal import Rehearsal
from driftless.cost.table import as_rows, cost_table, rich_table

__all__ = [
    "cost_table",
    "rich_table",
    "as_rows",
    "measure",
    "Cost",
    "Amounts",
    "vectors",
    "Rehearsal",
    "Counting",
    "Operations",
]
