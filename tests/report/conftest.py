from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from driftless.runs.directory import StoredRun
from report.runs import Folder, write_run

SETTINGS = (
    "data.clients=20", "data.partition=dirichlet", "data.alpha=0.3", "model=logistic", "local.lr=0.1", "local.epochs=1",
    "local.batch_size=20", "run.cohort=5", "run.rounds=16",
)  # fmt: skip
LABELS = [[(client * digit) % 7 for digit in range(10)] for client in range(20)]
DIVISION = {
    "clients": 20, "examples": sum(map(sum, LABELS)), "sizes": list(map(sum, LABELS)), "labels": LABELS, "classes": 10,
    "validation_clients": 0,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "runs")


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> list[StoredRun]:
    """Three algorithms, two seeds, 16 rounds, with the metrics of a classification."""
    home = tmp_path_factory.mktemp("comparison")
    return [
        write_run(
            home / name / f"seed-{seed}", [*SETTINGS, f"algorithm={name}", f"run.seed={seed}"],
            [row(t, rank, seed, own) for t in range(1, 17)], federation=DIVISION,
        )
        for rank, (name, own) in enumerate((("fedavg", ""), ("scaffold", "norm_c"), ("ghbm", "norm_m")))
        for seed in (0, 1)
    ]  # fmt: skip


def row(t: int, rank: int, seed: int, own: str) -> dict[str, Any]:
    """Learning that is faster with a higher rank; `own` is a metric that only this algorithm records."""
    left = math.exp(-0.1 * t * (1 + rank)) * (1 + 0.1 * math.sin(t + seed))
    sent = 26_000 * (2 if own == "norm_c" else 1)
    values = {
        "test_accuracy": 0.9 - 0.8 * left, "test_loss": 2.3 * left, "train_accuracy": 0.95 - 0.8 * left,
        "train_loss": 2.2 * left, "failure": 0, "norm_x": 3 - 2 * left, "norm_update": left, "cosine": 0.5 * left,
        "drift": 0.2 + left, "lr": 0.1, "cohort": 5, "skipped": 0, "examples": 350 + seed, "bytes_down": sent,
        "bytes_up": sent, "simulated_time": 5.0 + seed, "seconds": 0.01, "surprise": 1.0,
    }  # fmt: skip
    return {"round": t, **values, **({own: 1 - left} if own else {})}
