"""Values read from files that anyone may have written: how deep they may be nested, and how large numbers may be."""

from __future__ import annotations

from typing import Any

MOST_NESTED = 20
"""Levels of lists and tables; ours have four."""


def refuse_deep_or_huge(value: Any) -> None:
    """Raise ValueError for what no run writes, and what later steps could not bear."""
    level = [value]
    for _ in range(MOST_NESTED + 1):
        if any(isinstance(each, int) and abs(each) >= 2**63 for each in level):
            raise ValueError("it holds a number of more than 64 bits")
        level = [item for each in level for item in items_of(each)]
    if level:
        raise ValueError(f"it is nested more than {MOST_NESTED} deep")


def items_of(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
