"""Losses, accuracies and other metrics of a vector on the data sets of a federation, in large batches.

Losses and accuracies are added up batch by batch. Other metrics need all outputs of a data set at once: these are
collected, whichever process computed them, in the order of the batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from driftless.algorithm import Vector
from driftless.data.federation import Federation
from driftless.data.inputs import Inputs, cast_floats, take
from driftless.engine.device import moved, moved_inputs
from driftless.engine.flat import FlatModel
from driftless.engine.losses import Loss, class_dimension, correct, counted
from driftless.engine.metrics import Metric, has_numbers, measure
from driftless.errors import doing
from driftless.random import torch_stream

EVALUATION_BATCH = 2048
PERCENTILES = (5, 25, 50, 75, 95)


class Evaluation(NamedTuple):
    """What is evaluated: the same for all rounds of a run."""

    model: FlatModel
    loss: Loss
    federation: Federation
    seed: int
    metrics: tuple[Metric, ...] = ()
    """Besides losses and accuracies."""
    ignored: tuple[int, ...] = ()
    """Labels that accuracies and metrics leave out."""
    outputs: Tensor | None = None
    """Of two examples: shape and type of all others."""
    finetune_steps: int = 0
    """Local steps of a client before the model is evaluated on its own test data; 0: that is not done."""
    cohort: bool = False
    """Whether the model that a round sends out is evaluated on the training data of the clients that get it."""
    rows: Tensor | None = None
    """If given, these training examples are evaluated, and no data set."""

    def of_cohort(self, clients: np.ndarray) -> Evaluation:
        """Loss and accuracy on all training examples of these clients, whatever their order."""
        clients, offsets = np.sort(clients), self.federation.offsets
        ends = zip(offsets[clients].tolist(), offsets[clients + 1].tolist(), strict=True)
        rows = np.concatenate([np.arange(first, last) for first, last in ends])
        return self._replace(metrics=(), rows=torch.from_numpy(rows).to(self.federation.targets.device))

    @property
    def data(self) -> dict[str, tuple[Inputs, Tensor]]:
        """The data sets that are there: test set, clients' own test data, held-out validation clients."""
        federation = self.federation
        if self.rows is not None:
            return {"cohort": (federation.inputs, federation.targets)}
        sets = {"client_test": federation.client_test, "validation": federation.validation}
        found = {name: (part.inputs, part.targets) for name, part in sets.items() if part is not None}
        return found if federation.test is None else {"test": federation.test, **found}

    def batches(self) -> list[tuple[str, int]]:
        """Data set and first example of every batch."""
        return [(name, i) for name in self.data for i in range(0, self.number(name), EVALUATION_BATCH)]

    def targets(self, name: str) -> Tensor:
        """Of the examples of a data set that are evaluated."""
        targets = self.data[name][1]
        return targets if self.rows is None else targets[self.rows]

    def number(self, name: str) -> int:
        """Of these examples."""
        return len(self.data[name][1] if self.rows is None else self.rows)

    def batch(self, name: str, first: int) -> tuple[Inputs, Tensor]:
        """On the model's device."""
        rows: Any = slice(first, first + EVALUATION_BATCH)
        rows = rows if self.rows is None else self.rows[rows]
        (inputs, targets), x = self.data[name], self.model.initial
        return cast_floats(moved_inputs(take(inputs, rows), x.device), x.dtype), moved(targets[rows], x.device)

    def room(self, name: str, first: int) -> Tensor:
        """Room for the outputs of a batch, as far as they are kept."""
        if self.outputs is None or not self.metrics:
            return torch.empty(0, device="cpu")
        number = min(EVALUATION_BATCH, self.number(name) - first)
        return torch.empty(number, *self.outputs.shape[1:], dtype=self.outputs.dtype, device="cpu")

    @property
    def test_clients(self) -> str | None:
        """The data set whose clients are judged one by one: with test data of their own, else those held out."""
        return next((name for name in ("client_test", "validation") if name in self.data), None)

    @property
    def has_accuracy(self) -> bool:
        """Whether the targets are labels of the outputs."""
        if self.outputs is None:
            return False
        targets = self.federation.targets[: len(self.outputs)].to(self.outputs.device)
        return class_dimension(self.loss, self.outputs, targets) is not None


class BatchResult(NamedTuple):
    loss: Tensor
    """Summed over the examples."""
    correct: Tensor
    """How much of each example is classified correctly, of `counted`; empty for regression."""
    outputs: Tensor
    """Empty if no metric needs them."""


class Evaluated(NamedTuple):
    row: dict[str, float]
    """Columns of the round's row; NaN where something is not defined."""
    clients: dict[str, list[float]]
    """By metric, the value of each test client; NaN for a client without test data."""
    notices: tuple[str, ...]
    """What a user should see once."""


@torch.no_grad()
def evaluate_batches(of: Evaluation, x: Vector, t: int, batches: Iterable[int]) -> dict[int, BatchResult]:
    """The results of these batches of `of.batches()`; several processes may share them."""
    of.model.resident.load(x)
    places, purpose = of.batches(), "evaluate" if of.rows is None else "evaluate-cohort"
    results: dict[int, BatchResult] = {}
    for i in batches:
        inputs, targets = of.batch(*places[i])
        with torch_stream(of.seed, purpose, t, i):
            outputs = of.model.resident.evaluate(inputs)
            each = in_double(correct(of.loss, outputs, targets, of.ignored))
            kept = outputs.clone().cpu() if of.metrics else torch.empty(0, dtype=outputs.dtype, device="cpu")
            loss = in_double(of.loss(outputs, targets.clone())) * len(targets)  # a loss may write over both
        results[i] = BatchResult(loss, each, kept)
    return results


def in_double(values: Tensor) -> Tensor:
    """In main memory: not every accelerator has double precision."""
    return values.cpu().double()


@torch.no_grad()
def evaluated(of: Evaluation, results: dict[int, BatchResult], t: int) -> Evaluated:
    """What the results of all batches come to.

    test_loss, test_accuracy, test_<metric>, the same for validation; percentiles over test clients, test_p5 ... of the
    accuracy and test_<metric>_p5 ... of a metric; of a cohort, cohort_loss and cohort_accuracy. Accuracies only for
    labels.
    """
    places = of.batches()
    parts = {name: [results[i] for i, (at, _) in enumerate(places) if at == name] for name in of.data}
    row: dict[str, float] = {}
    clients: dict[str, list[float]] = {}
    notices: list[str] = []
    for name in ("test", "validation", "cohort"):
        if name in parts:
            number = of.number(name)
            each = torch.cat([part.correct for part in parts[name]])
            row[f"{name}_loss"] = float(sum(part.loss for part in parts[name])) / number
            if each.numel():
                row[f"{name}_accuracy"] = float(each.sum()) / float(counted(of.targets(name), of.ignored).sum())
            measured, problems = metrics_on(of, name, parts[name], t)
            row |= {f"{name}_{column}": value for column, value in measured.items()}
            notices += problems
    if of.test_clients is not None:
        clients = by_client(of, of.test_clients, parts[of.test_clients], t)
        for column, values in clients.items():
            row |= percentiles("test_p" if column == "accuracy" else f"test_{column}_p", values)
    return Evaluated(row, clients, tuple(notices))


def metrics_on(of: Evaluation, name: str, parts: list[BatchResult], t: int) -> tuple[dict[str, float], list[str]]:
    """The metrics on a data set, by column, and which of them are not a number there."""
    if not of.metrics:
        return {}, []
    outputs, targets = torch.cat([part.outputs for part in parts]), of.data[name][1].cpu()
    where = f"the {name} set" if name == "test" else "the held-out clients"
    values = {metric.column: value_of(of, metric, outputs, targets, where, t) for metric in of.metrics}
    nan = [metric for metric in of.metrics if math.isnan(values[metric.column]) and has_numbers(outputs, targets)]
    return values, [f"metric '{each.name}' is not a number on {where}: its value is left out" for each in nan]


def by_client(of: Evaluation, name: str, parts: list[BatchResult], t: int) -> dict[str, list[float]]:
    """The accuracy and the metrics on each client's own examples."""
    federation = of.federation.client_test if name == "client_test" else of.federation.validation
    assert federation is not None
    found: dict[str, list[float]] = {}
    each = torch.cat([part.correct for part in parts])
    if each.numel():
        found["accuracy"] = accuracy_by_client(each, federation, of.ignored)
    if of.metrics:
        outputs, sizes = torch.cat([part.outputs for part in parts]), federation.sizes.tolist()
        pairs = list(zip(outputs.split(sizes), federation.targets.cpu().split(sizes), strict=True))
        for metric in of.metrics:
            found[metric.column] = [
                value_of(of, metric, own, targets, f"the {len(targets)} test examples of client {i}", t)
                for i, (own, targets) in enumerate(pairs)
            ]
    return found


def value_of(of: Evaluation, metric: Metric, outputs: Tensor, targets: Tensor, where: str, t: int) -> float:
    with doing(f"computing metric '{metric.name}' on {where} after round {t}"), torch_stream(of.seed, "metric", t):
        return measure(metric, of.loss, of.ignored, outputs, targets)


def accuracy_by_client(each: Tensor, clients: Federation, ignored: Sequence[int]) -> list[float]:
    """The accuracy on each client's own examples; NaN for a client without any label that counts."""
    with np.errstate(invalid="ignore"):  # 0 / 0
        return (sums_by_client(each, clients) / counted_by_client(clients, ignored)).tolist()


def counted_by_client(clients: Federation, ignored: Sequence[int]) -> np.ndarray:
    """What the correct part of each client's examples is a part of: their number, or that of labels that count."""
    return sums_by_client(counted(clients.targets, ignored).cpu(), clients)


def sums_by_client(each: Tensor, clients: Federation) -> np.ndarray:
    total = np.concatenate([[0.0], each.cumsum(0).numpy()])
    return total[clients.offsets[1:]] - total[clients.offsets[:-1]]


def percentiles(prefix: str, values: list[float]) -> dict[str, float]:
    """Over the clients that have a value."""
    known = [value for value in values if not math.isnan(value)]
    with np.errstate(invalid="ignore"):  # between infinities
        return {f"{prefix}{p}": float(np.percentile(known, p)) for p in PERCENTILES} if known else {}
