"""How often does `driftless reproduce` call equals different? Runs each algorithm with many seeds and compares it with
itself; prints the table of docs/papers/false_verdicts.md.

    python examples/false_verdicts.py [SEEDS]

About half an hour on two cores with the default of 300 seeds. Runs that are there are used again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import driftless
from driftless.reproduce.false_verdicts import count_false_verdicts

SEEDS, TRIALS = 300, 2000
ALGORITHMS = ("fedavg", "scaffold", "adabest")
PARTITIONS = {"iid": {"partition": "iid"}, "Dirichlet 0.1": {"partition": "dirichlet", "alpha": 0.1}}
ROUNDS, COHORT, CLIENTS = 30, 5, 50
LOOKS = ((3, 3), (3, 6), (3, 10), (6, 10))
MEASURES = {"final accuracy": lambda column: column[-1], "accuracy, last tenth": lambda column: column[-3:].mean(),
            "rounds to 80 %": lambda column: float(np.argmax(np.append(column, 1) >= 0.8))}  # fmt: skip


def curve(task: tuple[str, str, int]) -> np.ndarray:
    """Test accuracy after each round of a run."""
    algorithm, partition, seed = task
    federation = driftless.load("digits", clients=CLIENTS, seed=seed, **PARTITIONS[partition])
    result = driftless.simulate(
        driftless.ALGORITHMS[algorithm](), federation, "logistic", rounds=ROUNDS, cohort=COHORT, seed=seed,
        local=driftless.LocalTraining(lr=0.3, epochs=2, batch_size=10), evaluate_every=1,
        engine=driftless.EngineSettings(workers=1),
    )  # fmt: skip
    return np.array(result.history["test_accuracy"])


def table(curves: dict[tuple[str, str], list[np.ndarray]]) -> Iterator[str]:
    yield "| algorithm | measure | settings | seeds | false verdicts | 95 % interval |"
    yield "|---|---|---|---|---|---|"
    total = false = 0
    for algorithm in ALGORITHMS:
        for name, of in MEASURES.items():
            values = {p: np.array([of(column) for column in curves[algorithm, p]]) for p in PARTITIONS}
            for settings, label in (*(([values[p]], p) for p in PARTITIONS), (list(values.values()), "both, pooled")):
                for first, last in LOOKS:
                    found = count_false_verdicts(settings, first, last, TRIALS)
                    total, false = total + found.trials, false + found.false
                    low, mean, high = found.share
                    seeds = f"{first}" if first == last else f"{first} to {last}"
                    share = f"{100 * mean:.1f} % | {100 * low:.1f} to {100 * high:.1f} %"
                    yield f"| {algorithm} | {name} | {label} | {seeds} | {share} |"
    yield f"\n{false} of {total:,} trials, {100 * false / total:.1f} %."


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    tasks = [
        (algorithm, partition, seed) for algorithm in ALGORITHMS for partition in PARTITIONS for seed in range(seeds)
    ]
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(curve, tasks, chunksize=10))
    curves: dict[tuple[str, str], list[np.ndarray]] = {}
    for (algorithm, partition, _), column in zip(tasks, found, strict=True):
        curves.setdefault((algorithm, partition), []).append(column)
    print("\n".join(table(curves)))


if __name__ == "__main__":
    main()
