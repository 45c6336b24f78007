"""Table 7: what was searched for each method and model, and what was best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from driftless.reproduce.published import published

SERVER_LR, LR, BETA, TAU = "algorithm.server_lr", "local.lr", "algorithm.beta", "algorithm.tau"
PUBLISHED = published(__file__, "table_7")
NOT_SHOWN = "?"


class Search(NamedTuple):
    """What was tried, and what was best; None where our copy of the table does not show which one is bold."""

    tried: tuple[Any, ...]
    best: Any


def by_column(row: Mapping[str, Any]) -> dict[str, Search]:
    """A row of the table; a column's own values, or those of all columns."""
    tried = row["tried"] if isinstance(row["tried"][0], list) else [row["tried"]] * len(PUBLISHED["columns"])
    best = row["best"] if isinstance(row["best"], list) else [row["best"]] * len(PUBLISHED["columns"])
    return {
        column: Search(tuple(values), None if chosen == NOT_SHOWN else chosen)
        for column, values, chosen in zip(PUBLISHED["columns"], tried, best, strict=True)
    }


def searches(methods: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Search]]]:
    return {name: {key: by_column(row) for key, row in rows.items()} for name, rows in methods.items()}


METHODS = searches(PUBLISHED["methods"])
"""Method -> setting -> column -> search."""
WITH_STAND_INS = {**METHODS, **searches(PUBLISHED["stand_ins"]), "FedCM, all clients": METHODS["FedCM"]}
WEIGHT_DECAY = by_column(PUBLISHED["weight_decay"])
BATCH_SIZE = PUBLISHED["batch_size"]


def hyper_parameters(name: str, column: str) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """The values of Table 7: those known to be best, and the ones to be searched again."""
    fixed: dict[str, Any] = {}
    open_: dict[str, tuple[Any, ...]] = {}
    for key, row in WITH_STAND_INS[name].items():
        tried, best = row[column]
        if best is not None or len(tried) == 1:
            fixed[key] = tried[0] if best is None else best
        else:
            open_[key] = tried
    return fixed, open_
