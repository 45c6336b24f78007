"""What share of a round is not local steps: each part is timed inside real rounds of the MLP and the logistic row.

    python benchmarks/outside.py [--quick]

The parts: drawing the cohort and planning its minibatches; gathering the minibatches' rows; sums over the block;
the server's update; diagnostics; the client states; writing a line of metrics. The local steps are what the engine
replays. What is neither in a part nor a local step is shown as the rest.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from measure import judged, publish, quartiles, quick_from_command_line
from rows import ROWS, Row, build, tensors

import driftless
from driftless.data import cohorts
from driftless.engine import block, clients, minibatches, round, simulation
from driftless.engine.graph import replay
from driftless.runs.run import Lines

LIMIT = 5.0


class Stopwatch:
    """Replaces functions by timed ones; time spent in a timed function inside another counts for the inner one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = [0.0]

    @contextmanager
    def part(self, name: str) -> Generator[None]:
        self._inner.append(0.0)
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent - self._inner.pop()
            self._inner[-1] += spent

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return function(*args, **kwargs)

        return call


PARTS = [
    ("local steps", replay.Series, "__call__"),
    ("cohort and minibatch plans", cohorts.Constant, "clients"),
    ("cohort and minibatch plans", round, "blocks_of"),
    ("cohort and minibatch plans", block, "block_batches"),
    ("gathering", minibatches.BlockBatches, "gather"),
    ("sums", round, "sums_of"),
    ("sums", round, "finite_rows"),
    ("sums", round, "add"),
    ("sums", round, "means_of"),
    ("diagnostics", round, "row_of"),
    ("diagnostics", simulation, "norms"),
    ("client states", clients.ClientStore, "get"),
    ("client states", clients.ClientStore, "put"),
]


@contextmanager
def watching(algorithm: type) -> Generator[Stopwatch]:
    watch = Stopwatch()
    parts = [*PARTS, ("server", algorithm, "update")]
    originals = [(owner, name, getattr(owner, name)) for _, owner, name in parts]
    try:
        for label, owner, name in parts:
            setattr(owner, name, watch.timed(label, getattr(owner, name)))
        yield watch
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)


def shares(row: Row, algorithm: str, rounds: int) -> dict[str, float]:
    """Per cent of the rounds after the first three."""
    inputs, targets = tensors(row)
    federation = driftless.Federation.from_clients(list(zip(inputs, targets, strict=True)))
    local = driftless.LocalTraining(lr=row.lr, epochs=row.epochs, batch_size=row.batch)
    begin = [0.0]
    with (
        tempfile.TemporaryDirectory() as folder,
        Lines(Path(folder) / "metrics.jsonl", Path(folder) / "copy.jsonl", b"") as lines,
        watching(driftless.algorithms.ALGORITHMS[algorithm]) as watch,
    ):

        def on_round(record: driftless.Record) -> None:
            with watch.part("logging"):
                lines.write(dict(record.metrics))
            if record.round == 3:
                watch.seconds.clear()
                begin[0] = time.perf_counter()

        driftless.simulate(
            algorithm, federation, build(row), rounds=rounds, cohort=row.cohort, local=local,
            engine=driftless.EngineSettings("block", workers=1), evaluate_every=0, on_round=on_round,
        )  # fmt: skip
        total = time.perf_counter() - begin[0]
        found = {name: 100 * seconds / total for name, seconds in watch.seconds.items()}
    return {**found, "rest": 100 - sum(found.values())}


def main() -> None:
    quick = quick_from_command_line(__doc__)
    sections = []
    for (name, rounds), algorithm in product((("mlp", 30), ("logistic", 400)), ("fedavg", "adabest")):
        runs = [shares(ROWS[name], algorithm, rounds // (3 if quick else 1)) for _ in range(2 if quick else 5)]
        outside = [100 - run["local steps"] for run in runs]
        without = [100 - run["local steps"] - run["gathering"] for run in runs]
        parts = {label: statistics.median(run[label] for run in runs) for label in runs[0]}
        print(f"\n{name}, {algorithm}: per cent of a round")
        for label, share in sorted(parts.items(), key=lambda item: -item[1]):
            low, high = quartiles([run[label] for run in runs])
            print(f"  {label:28} {share:6.2f}  ({low:.2f} to {high:.2f})")
        target = LIMIT if (name, algorithm) == ("mlp", "fedavg") else None
        claims = [
            judged(f"outside/{name}-{algorithm}", f"{name}, {algorithm}: all but local steps and minibatch rows",
                   statistics.median(without), target, at_most=True, unit="%"),
            judged(f"outside/{name}-{algorithm}-rows", f"{name}, {algorithm}: all but local steps",
                   statistics.median(outside), None, at_most=True, unit="%"),
            *(judged(f"outside/{name}-{algorithm}-{label.replace(' ', '-')}", f"{name}, {algorithm}: {label}",
                     share, None, at_most=True, unit="%") for label, share in parts.items()),
        ]  # fmt: skip
        sections.append({"row": f"{name}-{algorithm}", "title": f"{name}, {algorithm}", "times": [], "claims": claims})
    publish("outside", sections, quick=quick)


if __name__ == "__main__":
    main()
