"""Personalised models: each client takes some local steps from the model that is evaluated, and is judged on its own
test data.

The steps are those of the run's local training, along the gradient as FedAvg's, whatever the run's algorithm is. They
draw from streams of their own, and nothing of them remains: no state, no model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from driftless.algorithm import Algorithm, Model, Round, Server, Upload, Vector
from driftless.data.inputs import take
from driftless.engine.device import moved, moved_inputs
from driftless.engine.evaluate import EVALUATION_BATCH, Evaluated, counted_by_client, percentiles
from driftless.engine.evaluation_settings import fine_tuning
from driftless.engine.losses import correct, counted
from driftless.engine.minibatches import Workload
from driftless.engine.round import RoundPlan, blocks_of, round_facts
from driftless.random import key63, torch_stream


@dataclass(frozen=True)
class LocalStepsOnly(Algorithm):
    """Local steps along the gradient, of which no server hears."""

    def update(self, server: Server, mean: Upload, r: Round) -> Server:
        return server


def fine_tuning_work(work: Workload, steps: int) -> Workload:
    return work._replace(
        algorithm=LocalStepsOnly(), training=fine_tuning(work.training, steps), seed=key63(work.seed, "fine-tuning"),
        mislabelled=None,
    )  # fmt: skip


def with_personal(found: Evaluated, plan: RoundPlan, x: Vector, t: int, ignored: Sequence[int]) -> Evaluated:
    """Add personal_accuracy, the mean over clients, its percentiles, and client_accuracy, the mean without the steps.

    For regression both are losses. `ignored`: labels that the accuracy leaves out.
    """
    own = plan.work.federation.client_test
    assert own is not None
    kind = "accuracy" if "accuracy" in found.clients else "loss"
    clients = np.flatnonzero(counted_by_client(own, ignored if kind == "accuracy" else ()))
    values = [math.nan] * own.clients
    for block in blocks_of(plan, clients, t, x):
        r = round_facts(plan.work, x, t, len(clients), block.steps, block.examples)
        models = plan.trainer.train(block, Model(x), (), r).y
        for client, y in zip(block.clients.tolist(), models, strict=True):
            values[client] = on_own_test_data(plan.work, y, client, t, kind, ignored)
    before = found.clients.get("accuracy")
    if before is None:
        before = [on_own_test_data(plan.work, x, i, t, kind, ()) if n else math.nan for i, n in enumerate(own.sizes)]
    row = {f"client_{kind}": mean(before, clients), f"personal_{kind}": mean(values, clients)}
    row |= percentiles("personal_p", values)
    notices = found.notices
    if math.isnan(row[f"personal_{kind}"]):
        notices = (*notices, f"personal_{kind} is not a number: the local steps of some clients were not finite")
    return Evaluated(found.row | row, found.clients | {kind: before, f"personal_{kind}": values}, notices)


def mean(values: list[float], clients: np.ndarray) -> float:
    return float(np.mean(np.asarray(values)[clients]))


@torch.no_grad()
def on_own_test_data(work: Workload, y: Vector, client: int, t: int, kind: str, ignored: Sequence[int]) -> float:
    """The accuracy or the loss of a vector; NaN if it is not finite."""
    own, resident = work.federation.client_test, work.model.resident
    assert own is not None
    if not bool(torch.isfinite(y).all()):
        return math.nan
    resident.load(y)
    inputs, targets = own.client(client)
    total = 0.0
    with torch_stream(work.seed, "evaluate", t, client):
        for first in range(0, len(targets), EVALUATION_BATCH):
            rows = slice(first, first + EVALUATION_BATCH)
            outputs, wanted = (
                resident.evaluate(moved_inputs(take(inputs, rows), y.device)),
                moved(targets[rows], y.device),
            )
            if kind == "accuracy":
                total += float(correct(work.loss, outputs, wanted, ignored).double().sum())
            else:
                total += float(work.loss(outputs, wanted.clone())) * len(wanted)
    return total / (float(counted(targets, ignored).sum()) if kind == "accuracy" else len(targets))
