from __future__ import annotations

from pathlib import Path

import pytest

from driftless.config.resolution import resolve
from driftless.runs.directory import StoredRun
from driftless.runs.run import start
from report.runs import Folder

SETTINGS = (
    "data.clients=20", "data.partition=dirichlet", "data.alpha=0.3", "model=logistic", "local.lr=0.1", "local.epochs=1",
    "local.batch_size=20", "run.cohort=5", "run.rounds=16", "engine.kind=block", "engine.threads=1",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "runs")


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> list[StoredRun]:
    """Real runs: three algorithms, two seeds."""
    home = tmp_path_factory.mktemp("comparison")
    return [
        start(resolve(None, [*SETTINGS, f"algorithm={name}", f"run.seed={seed}"]), home / name / f"seed-{seed}")
        for name in ("fedavg", "scaffold", "ghbm")
        for seed in (0, 1)
    ]
