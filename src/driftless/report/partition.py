"""How the labels are distributed over the clients, as numbers to draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftless.config.build import federation_of
from driftless.config.resolution import Config
from driftless.data.federation import Federation
from driftless.report.curves import Curve, key_of
from driftless.report.names import short

MOST = 100
"""Clients and classes that are drawn."""
PICTURES = 4


class Partition(NamedTuple):
    title: str
    counts: NDArray[np.int64] | None
    """[clients, classes], at most the first 100 of each; None when there is nothing to draw."""
    text: str
    """What the picture shows, or why there is none."""
    clients: int | None = None


def partitions(curves: Sequence[Curve]) -> list[Partition]:
    """One for each way in which the data were divided, for the first seed."""
    first: dict[str, Curve] = {}
    for curve in curves:
        first.setdefault(key_of(data_settings(curve)), curve)
    return [partition_of(curve) for curve in list(first.values())[:PICTURES]]


def data_settings(curve: Curve) -> dict[str, object]:
    return {key: value for key, value in curve.settings.items() if key.startswith("data.")}


def partition_of(curve: Curve) -> Partition:
    config = curve.runs[0].stored.config
    settings = {key.removeprefix("data."): value for key, value in data_settings(curve).items() if value}
    title = ", ".join([str(settings.pop("name")), *(f"{key} = {short(value)}" for key, value in settings.items())])
    try:
        federation = federation_of(config)
    except (OSError, ValueError) as error:  # data that are not on this machine, or no longer what they were
        return Partition(title, None, f"The partition cannot be drawn here: {error}")
    n = federation.clients
    if federation.classes is None:
        return Partition(title, None, "The targets are numbers (regression), so there are no labels to draw.", n)
    seeds = [data_seed(run.stored.config) for run in curve.runs]
    return Partition(title, federation.label_counts()[:MOST, :MOST], explain(federation, seeds), n)


def data_seed(config: Config) -> int:
    return config.run.seed if config.data.seed is None else config.data.seed


def explain(federation: Federation, seeds: Sequence[int]) -> str:
    sizes, classes = federation.sizes, federation.classes or 0
    text = f"Examples of each class that each client has. {len(federation.inputs):,} examples; a client has "
    text += f"{sizes.min():,} to {sizes.max():,}, the median is {np.median(sizes):,.10g}. "
    text += (
        f"Label skew {federation.label_skew():.2f}, from 0 (every client like all together) to 1 (nothing in common)."
    )
    cut = [f"{what} of {n:,}" for what, n in (("clients", federation.clients), ("classes", classes)) if n > MOST]
    text += f" The first {MOST} {f' and the first {MOST} '.join(cut)} are shown." if cut else ""
    return text + (f" This is the partition of seed {seeds[0]}; each seed has its own." if len(set(seeds)) > 1 else "")
