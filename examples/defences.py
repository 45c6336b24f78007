"""Sign-flipping clients against four ways to aggregate: python examples/defences.py (half an hour on two cores)

Prints the table of docs/defences.md: the test accuracy of FedAvg, SCAFFOLD, AdaBest and GHBM on digits and MNIST, when
none, a tenth or three tenths of the clients send the opposite of their upload. The mean of the last five evaluations,
then mean and standard deviation over three seeds. The settings below were fixed before the table was made: nothing is
tuned, neither to an algorithm nor to a defence. Krum knows no more than that at most three tenths are attackers, and
the bound on norms is the median of the norms of each round.

Run again after an interruption, it continues: the runs are in runs/defences. `python examples/defences.py digits` makes
one part of the table; MNIST is read from where DRIFTLESS_DATA says, or downloaded.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

import driftless

ALGORITHMS = ["fedavg", "scaffold", "adabest", "ghbm"]
RULES = {
    "mean": driftless.Aggregation("mean"),
    "median": driftless.Aggregation("median"),
    "Krum": driftless.Aggregation("krum", attackers=0.3),
    "norm bound": driftless.Aggregation("norm-bound"),
}
ATTACKERS = [0.0, 0.1, 0.3]
SEEDS = 3
LAST = 5
"""Evaluations whose mean is the accuracy of a run."""
LOCAL = {
    "digits": driftless.LocalTraining(lr=0.1, epochs=5, batch_size=10),
    "mnist": driftless.LocalTraining(lr=0.1, steps=10, batch_size=32),
}
ROUNDS = {"digits": 80, "mnist": 40}
CLIENTS, COHORT, ALPHA = 100, 20, 0.5
"""ALPHA: of the Dirichlet distribution of labels over clients."""

Accuracies = dict[tuple[str, float, str, str], list[float]]
"""One a seed, by data set, share of attackers, algorithm and rule."""


def accuracies(data: str, folder: Path, rounds: int, attackers: list[float], seeds: int = SEEDS) -> Accuracies:
    federation = driftless.load(data, clients=CLIENTS, partition="dirichlet", alpha=ALPHA, seed=0)
    found: Accuracies = {}
    for share in attackers:
        for rule, aggregation in RULES.items():
            output = folder / data / f"{rule.replace(' ', '-')}-{share:g}"
            result = driftless.compare(
                ALGORITHMS, federation, "mlp", output=output, seeds=seeds, rounds=rounds, cohort=COHORT,
                local=LOCAL[data], aggregation=aggregation, **sign_flips(share),
            )  # fmt: skip
            for run in result.runs:
                found.setdefault((data, share, run.config.algorithm.name, rule), []).append(accuracy(run))
            print(f"{data}, {share:.0%} attackers, {rule}: {output}", file=sys.stderr, flush=True)
    return found


def sign_flips(share: float) -> dict[str, Any]:
    return {"faults": driftless.Faults(attack="sign-flip", attackers=share)} if share else {}


def accuracy(run: driftless.StoredRun) -> float:
    """Of a run that diverged, until then."""
    measured = [row["test_accuracy"] for row in run.history if row.get("test_accuracy") is not None]
    return statistics.mean(measured[-LAST:])


def table(found: Accuracies) -> str:
    """In Markdown, in percent."""
    columns = list(dict.fromkeys((data, share) for data, share, _, _ in found))
    lines = [
        "| | | " + " | ".join(f"{data}, {share:.0%}" for data, share in columns) + " |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for algorithm in ALGORITHMS:
        for rule in RULES:
            cells = [cell(found[data, share, algorithm, rule]) for data, share in columns]
            lines.append(f"| {algorithm} | {rule} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(values: list[float]) -> str:
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{spread}"


if __name__ == "__main__":
    measured: Accuracies = {}
    for name in sys.argv[1:] or list(ROUNDS):
        measured |= accuracies(name, Path("runs/defences"), ROUNDS[name], ATTACKERS)
    print(table(measured))
