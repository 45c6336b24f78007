"""What share of a round the diagnostics take: each diagnostic function is timed inside real rounds.

    python benchmarks/diagnostics.py

The work is the MLP row of the benchmarks: 784-100-100-10, 10 of 100 clients, 480 examples each, 5 epochs of batches of
45.
Prints the share for FedAvg and for an algorithm with server vectors of its own, and for a light logistic model.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import driftless
from driftless.engine import block, local, round, simulation

ROUNDS = 12


class Stopwatch:
    """Replaces functions by timed ones and adds their times up."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def time(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **kwargs)
            self.seconds += time.perf_counter() - start
            return result

        return timed


def random_images(clients: int, examples: int) -> driftless.Federation:
    generator = torch.Generator().manual_seed(0)
    pairs = [
        (torch.rand(examples, 784, generator=generator), torch.randint(0, 10, (examples,), generator=generator))
        for _ in range(clients)
    ]
    return driftless.Federation.from_clients(pairs)


def share(algorithm: str, model: str, federation: driftless.Federation, training: driftless.LocalTraining) -> float:
    """Seconds of the diagnostics / seconds of the rounds, without the first rounds."""
    watch = Stopwatch()
    rows: list[float] = []

    def on_round(record: driftless.Record) -> None:
        if record.round == 2:
            watch.seconds = 0.0
            rows.clear()
        rows.append(record.metrics["seconds"])

    diagnostics = [
        (round.Arrived, "metrics"),
        (round.Arrived, "_add_directions"),
        (simulation, "norms"),
        (simulation, "examples_of"),
        (block, "summary"),
        (local, "hits"),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name in diagnostics]
    try:
        for owner, name, function in originals:
            setattr(owner, name, watch.time(function))
        driftless.simulate(
            algorithm, federation, model, rounds=ROUNDS, cohort=10, local=training, engine="block", on_round=on_round
        )
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)
    return watch.seconds / sum(rows[1:])


def main() -> None:
    heavy, light = random_images(100, 480), random_images(1000, 60)
    mlp = driftless.LocalTraining(lr=0.1, epochs=5, batch_size=45, last_batch="bootstrap")
    logistic = driftless.LocalTraining(lr=0.1, epochs=1, batch_size=10)
    for name in ("fedavg", "adabest", "scaffold"):
        print(f"mlp       {name:9} {100 * share(name, 'mlp', heavy, mlp):5.2f} % of a round")
    for name in ("fedavg", "scaffold"):
        print(f"logistic  {name:9} {100 * share(name, 'logistic', light, logistic):5.2f} % of a round")


if __name__ == "__main__":
    main()
