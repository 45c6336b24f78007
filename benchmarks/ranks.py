"""How a round on several ranks splits into training, waiting and communication, and how efficient two ranks are.

    python benchmarks/ranks.py [--ranks 2] [--rounds 20]

The MLP row with a cohort of 40 and the CNN row, with AdaBest, which keeps a state for each client. One process
and the ranks of torchrun play in turns, with the same block size, so that all compute the same bits. Efficiency: time
of a round in one process / (ranks x time on the ranks); medians over rounds, of which the first is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import replace
from typing import Any

from rows import CNN, MLP, Row, build, tensors

import driftless
from driftless.engine.cluster import Cluster

ROWS = {"mlp": replace(MLP, name="mlp", cohort=40), "cnn": CNN}
PARTS = ("seconds", "training", "waiting", "communication")
TURNS = 2


def play(row: Row, rounds: int) -> None:
    """On every rank; rank 0 prints the columns of time."""
    kind, size = ("block", 5) if row.model == "mlp" else ("single", None)
    engine = driftless.EngineSettings(kind, block_size=size, workers=1)  # the ranks of a launch count instead
    splits: list[dict[str, float]] = []
    train = Cluster.train

    def noted(self: Cluster, *arguments: Any) -> Any:
        found = train(self, *arguments)
        splits.append(self.seconds)
        return found

    Cluster.train = noted
    clients = list(zip(*tensors(row), strict=True))
    result = driftless.simulate(
        "adabest", driftless.Federation.from_clients(clients, classes=row.classes), build(row), rounds=rounds,
        cohort=row.cohort, local=driftless.LocalTraining(lr=row.lr, epochs=row.epochs, batch_size=row.batch),
        engine=engine, evaluate_every=0,
    )  # fmt: skip
    if os.environ.get("RANK", "0") == "0":
        rows = [{"seconds": seconds} for seconds in result.history["seconds"]]
        rows = [row | split for row, split in zip(rows, splits or [{}] * rounds, strict=True)][1:]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        print(json.dumps({"times": columns, "x": result.x.double().sum().item()}))


def launched(name: str, ranks: int, rounds: int) -> dict[str, object]:
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    command = [sys.executable, *torchrun, __file__, "--row", name, "--rounds", str(rounds)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(found.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        play(ROWS[given.row], given.rounds)
        return
    print("| row | processes | ms a round | training | waiting | communication | efficiency |")
    print("|---|---|---|---|---|---|---|")
    for name, row in ROWS.items():
        times: dict[int, dict[str, list[float]]] = {1: {}, given.ranks: {}}
        results = set[object]()
        for _ in range(TURNS):
            for ranks, columns in times.items():
                found = launched(name, ranks, given.rounds)
                results.add(found["x"])
                for column, values in found["times"].items():  # pyright: ignore
                    columns.setdefault(column, []).extend(values)
        if len(results) > 1:
            raise SystemExit(f"{row}: the ranks gave other bits than one process: {results}")
        medians = {
            ranks: {column: 1000 * statistics.median(values) for column, values in columns.items()}
            for ranks, columns in times.items()
        }
        for ranks, median in medians.items():
            parts = [f"{median[part]:.1f}" if part in median else "-" for part in PARTS]
            efficiency = medians[1]["seconds"] / (ranks * median["seconds"])
            print(f"| {row} | {ranks} | {' | '.join(parts)} | {efficiency:.0%} |", flush=True)


if __name__ == "__main__":
    main()
