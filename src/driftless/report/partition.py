"""How the examples and labels are distributed over the clients, from the federation.json of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftless.errors import InputError
from driftless.report.curves import Curve, Run
from driftless.report.metrics import plural, short
from driftless.report.settings import key_of
from driftless.runs.directory import read_json

FEDERATION = "federation.json"
MOST = 100
"""Clients and classes that are drawn."""
FIGURES = 4


class Partition(NamedTuple):
    title: str
    counts: NDArray[np.int64] | None
    """[clients, classes], at most the first 100 of each; None: there is no figure."""
    text: str
    """What the figure shows, or why there is none."""
    clients: int | None = None


def partitions(curves: Sequence[Curve]) -> list[Partition]:
    """One for each way in which the data were divided, for the first seed."""
    first: dict[str, Curve] = {}
    for curve in curves:
        first.setdefault(key_of(data_settings(curve)), curve)
    return [partition_of(curve) for curve in list(first.values())[:FIGURES]]


def data_settings(curve: Curve) -> dict[str, Any]:
    return {key.removeprefix("data."): value for key, value in curve.settings.items() if key.startswith("data.")}


def partition_of(curve: Curve) -> Partition:
    settings = {key: value for key, value in data_settings(curve).items() if value}
    title = ", ".join([str(settings.pop("name")), *(f"{key} = {short(value)}" for key, value in settings.items())])
    file = curve.runs[0].stored.path / FEDERATION
    if not file.exists():
        return Partition(title, None, f"The run did not record how its data are divided ({FEDERATION} is missing).")
    stored = read_json(file)
    try:
        return described(title, stored, curve)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError(f"'{file}' is not as a run writes it. Put it back, or delete it.") from None


def described(title: str, stored: dict[str, Any], curve: Curve) -> Partition:
    text = sizes_text(stored)
    if stored["labels"] is None:
        known = "The targets are numbers (regression): no labels."
        if stored.get("classes") is not None:
            known = "Which labels a client has is known to its node only."
        return Partition(title, None, f"{text} {known}", stored["clients"])
    counts = np.array(stored["labels"], dtype=np.int64)
    text = f"Examples of each class that each client has. {text} {skew_text(stored, counts)}"
    seeds = {division_seed(run) for run in curve.runs}
    if len(seeds) > 1:
        text += f" This is the partition of seed {division_seed(curve.runs[0])}; each seed has its own."
    return Partition(title, counts[:MOST, :MOST], text, stored["clients"])


def division_seed(run: Run) -> int:
    return run.seed if run.data_seed is None else run.data_seed


def sizes_text(stored: dict[str, Any]) -> str:
    """The file has the sizes of the first 1,000 clients at most."""
    sizes, clients, held_out = stored["sizes"], stored["clients"], stored["validation_clients"]
    text = f"{stored['examples']:,} examples on {plural(clients, 'client')}; "
    text += f"each of the first {len(sizes):,} clients" if len(sizes) < clients else "a client"
    text += f" has {min(sizes):,} to {max(sizes):,}, the median is {np.median(sizes):,.10g}."
    return f"{text} {plural(held_out, 'more client')} held out for validation." if held_out else text


def skew_text(stored: dict[str, Any], counts: NDArray[np.int64]) -> str:
    """Of the clients in the file: all of them, or the first 100."""
    clients, classes = stored["clients"], stored["classes"]
    subject = "Label skew" if len(counts) == clients else f"Label skew of the first {len(counts)} clients"
    text = f"{subject} {label_skew(counts):.2f}, from 0 (every client like all together) to 1 (nothing in common)."
    shown = ((counts[:MOST, :MOST].shape[0], clients, "clients"), (min(classes, MOST), classes, "classes"))
    cut = [f"the first {n} {what} of {total:,}" for n, total, what in shown if n < total]
    return f"{text} Shown: {' and '.join(cut)}." if cut else text


def label_skew(counts: NDArray[np.int64]) -> float:
    """The mean total-variation distance between a client's labels and those of all clients together."""
    held = counts[counts.sum(1) > 0]
    if not len(held):
        return 0.0
    own = held / held.sum(1, keepdims=True)
    overall = held.sum(0) / held.sum()
    return float(0.5 * np.abs(own - overall).sum(1).mean())
