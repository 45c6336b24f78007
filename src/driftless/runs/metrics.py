"""What is recorded of a round besides what the engine sees: evaluation, fairness, simulated time, failures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from driftless.config.resolution import Config
from driftless.engine.batches import examples_of
from driftless.engine.evaluate import accuracy_by_client, evaluate
from driftless.engine.simulation import Played, Simulation, State
from driftless.engine.stragglers import round_time

PERCENTILES = (5, 25, 50, 75, 95)
LARGE_MODEL = 100_000
INTERVALS = (1, 2, 5, 10, 20, 50)
Row = dict[str, Any]


def row_of(simulation: Simulation, config: Config, played: Played, previous: Mapping[str, Any] | None) -> Row:
    """The line of metrics.jsonl for a round; `previous` is the line before it."""
    row: Row = dict(played.record.metrics)
    t, run = played.record.round, config.run
    clients = simulation.cohort.clients(t, simulation.federation.clients, simulation.seed)
    sizes = simulation.federation.sizes[clients]
    row["simulated_time"] = round_time(sizes, run.straggler_alpha, run.straggler_lambda, simulation.seed, t)
    if "train_accuracy" in row:
        row["failure"] = int(halved(row, previous))
    if run.evaluate_every and (t % run.evaluate_every == 0 or t == run.rounds):
        row |= evaluation(simulation, played.state)
    # JSON has no infinity: what is not a number is left out, like what was not measured.
    return {name: value for name, value in row.items() if math.isfinite(value)}


def evaluation_interval(simulation: Simulation) -> int:
    """Every round; for a large model so seldom that evaluation takes at most about a tenth of the time of training."""
    test = simulation.federation.test
    if test is None or simulation.model.size < LARGE_MODEL:
        return 1
    clients = simulation.cohort.clients(1, simulation.federation.clients, simulation.seed)
    trained = 3 * examples_of(simulation.training, simulation.federation.sizes[clients]).sum()  # forward and backward
    often = [every for every in INTERVALS if len(test[0]) / every <= 0.1 * trained]
    return often[0] if often else INTERVALS[-1]


def halved(row: Mapping[str, Any], previous: Mapping[str, Any] | None) -> bool:
    """A catastrophic failure: the training accuracy fell to half or less in one round (large-cohort paper, 3.1)."""
    before = (previous or {}).get("train_accuracy")
    return before is not None and before > 0 and row["train_accuracy"] <= before / 2


def evaluation(simulation: Simulation, state: State) -> Row:
    """Test loss and accuracy, accuracy percentiles over test clients, and the same on held-out validation clients."""
    row: Row = dict(simulation.test(state))
    federation, x = simulation.federation, simulation.inference_vector(state)
    # Clients that never train are test clients too; a client's own test data come first.
    test_clients = federation.client_test or federation.validation
    if test_clients is not None:
        accuracies = accuracy_by_client(simulation.model, x, test_clients)
        if len(accuracies):
            row |= {f"test_p{p}": float(np.percentile(accuracies, p)) for p in PERCENTILES}
    if federation.validation is not None:
        held_out = federation.validation.inputs, federation.validation.targets
        measured = evaluate(simulation.model, simulation.loss, x, held_out)
        row |= {f"validation_{name}": value for name, value in measured.items()}
    return row


def stop_reason(config: Config, rows: list[Row]) -> str | None:
    """Why the run should stop now, from its rows alone, so that a resumed run decides the same."""
    run = config.run
    if not run.stop_at_target and run.patience is None:
        return None
    measured = [row["test_accuracy"] for row in rows if "test_accuracy" in row]
    if not measured or "test_accuracy" not in rows[-1]:
        return None
    if run.stop_at_target and run.target is not None and measured[-1] >= run.target:
        return f"test accuracy {measured[-1]:.4f} reached the target {run.target:g}"
    if run.patience is not None and len(measured) > run.patience:
        best_before = max(measured[: -run.patience])
        if max(measured[-run.patience :]) <= best_before:
            return f"no better test accuracy than {best_before:.4f} in the last {run.patience} evaluations"
    return None
